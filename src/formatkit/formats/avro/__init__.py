"""Apache Avro object container files, decoded to and encoded from Arrow columns by compiled programs."""
