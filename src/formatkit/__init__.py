"""One contract for every Iceberg data file format."""
