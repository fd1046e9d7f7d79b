"""The columns that Iceberg adds to every table, identified by id and never by name."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, IntegerType, LongType, NestedField, StringType, StructType

__all__ = ["DELETED_PATH", "DELETED_POSITION", "METADATA_COLUMNS", "POSITION_DELETES", "partition_column"]

FILE = NestedField(2147483646, "_file", StringType(), required=True, doc="location of the data file")
POS = NestedField(2147483645, "_pos", LongType(), required=True, doc="ordinal of the row in its data file")
DELETED = NestedField(2147483644, "_deleted", BooleanType(), required=True, doc="whether the row is deleted")
SPEC_ID = NestedField(2147483643, "_spec_id", IntegerType(), required=True, doc="partition spec of the data file")
PARTITION_ID = 2147483642
ROW_ID = NestedField(2147483540, "_row_id", LongType(), required=False, doc="stable id of the row")
LAST_UPDATED = NestedField(
    2147483539,
    "_last_updated_sequence_number",
    LongType(),
    required=False,
    doc="sequence number of the row's last change",
)


def partition_column(partition: StructType) -> NestedField:
    """The column `_partition`, whose type depends on the specs of the table."""
    return NestedField(PARTITION_ID, "_partition", partition, required=False, doc="partition of the data file")


METADATA_COLUMNS = {field.name: field for field in (FILE, POS, DELETED, SPEC_ID, ROW_ID, LAST_UPDATED)}
"""By name, `_partition` excepted because its type belongs to a table."""

DELETED_PATH = NestedField(2147483546, "file_path", StringType(), required=True, doc="location of the data file")
DELETED_POSITION = NestedField(2147483545, "pos", LongType(), required=True, doc="ordinal of the deleted row")
POSITION_DELETES = Schema(DELETED_PATH, DELETED_POSITION)
"""The columns of a position-delete file."""
