"""From one file, as it is, to rows as the table sees them. Knows no file format and no batch type.

Clauses
-------
P1  Columns are found by field id at every level. Names and order in the file mean nothing: what was renamed, moved or
    swapped is found, and what was dropped and added again under its old name is not.
P2  A file without ids is read through the table's name mapping, nested names and aliases included; what is not mapped
    is not read. Without a mapping it is refused with `MissingFieldIdsError`, unless the caller asked for names or
    positions.
P3  A field that the file lacks takes the partition's constant, null included, else its initial default, else null; if
    it is required, `MissingRequiredFieldError` before any row. Inside a null struct it stays null.
P4  A stored value that was promoted is exact. What Iceberg does not promote raises `IllegalPromotionError` before any
    row, and a value that does not fit raises `InvalidDataError`.
P5  The rows of a filtered read are those that pass the filter after everything else was done to them: whatever the
    reader skipped or left over, whether the column is projected, stored, promoted, absent, nested or constant.
P6  `_file`, `_pos`, `_spec_id`, `_partition` and `_deleted` are right for each row under filters, splits and any batch
    size. A column of the table that merely has such a name is data.
P7  `_row_id` and `_last_updated_sequence_number` are what the file stores, else inherited from the manifest entry, and
    null where it has no first row id.
P8  A stored column wins over the identity partition's constant, unless `prefer_partition_constants` is set.
P9  A reader that breaks its word about the type of its batches fails at the first one, with `ContractViolationError`.
P10 Rows at deleted positions and rows that equal a key of equality deletes are left out, whatever was filtered, split
    or projected. Keys are compared with what the table sees: promoted, filled with constants and defaults, null with
    null only. Where `_deleted` is asked for, by the output or by the filter, they are kept and marked instead.
"""

from formatkit.kernel.bind import bind
from formatkit.kernel.deletes import EqualityDeletes, RowDeletes
from formatkit.kernel.evaluate import evaluate
from formatkit.kernel.names import find_column
from formatkit.kernel.pipeline import FileStream, read
from formatkit.kernel.plan import FilePlan, plan
from formatkit.kernel.request import FileRequest
from formatkit.kernel.resolve import MissingIds

__all__ = [
    "EqualityDeletes",
    "FilePlan",
    "FileRequest",
    "FileStream",
    "MissingIds",
    "RowDeletes",
    "bind",
    "evaluate",
    "find_column",
    "plan",
    "read",
]
