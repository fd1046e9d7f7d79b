"""Apache Parquet for Polars frames: decoding by Polars, the rest shared with Arrow's plugin."""
