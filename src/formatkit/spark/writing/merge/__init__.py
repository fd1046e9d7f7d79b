"""`formatkit.spark.merge`: the rows of a DataFrame are merged into a table, by executors and in one snapshot."""

from formatkit.spark.writing.merge.frame import merge, upsert

__all__ = ["merge", "upsert"]
