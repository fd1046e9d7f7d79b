"""Apache Parquet: reading and writing data files with pyarrow."""
