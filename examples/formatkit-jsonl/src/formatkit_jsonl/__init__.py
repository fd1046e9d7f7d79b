"""JSON Lines as a file format for Apache Iceberg tables."""

from formatkit_jsonl.plugin import JsonLinesFormat

__all__ = ["JsonLinesFormat"]
