"""A catalog for Spark SQL over any catalog of pyiceberg; see RFC 0010."""
