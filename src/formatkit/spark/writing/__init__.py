"""Writing tables from Spark: executors write the files, the driver commits them in one snapshot."""

__all__: list[str] = []
