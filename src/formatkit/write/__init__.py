"""Writing: data from anywhere into files of any format, with the metrics that Iceberg wants."""

from formatkit.write.file import WrittenFile, write_file

__all__ = ["WrittenFile", "write_file"]
