"""Partitions of the rows that are written: their values, and which rows belong to which."""

from formatkit.write.partition.partitioner import Partition, Partitioner, Split
from formatkit.write.partition.transforms import ColumnTransform, compile_transform

__all__ = ["ColumnTransform", "Partition", "Partitioner", "Split", "compile_transform"]
