"""What is behind ``df.write.format("formatkit")``; what is behind ``spark.read`` is in `formatkit.spark.source`."""

__all__: list[str] = []
