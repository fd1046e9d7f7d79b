"""The unit of work of a scan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from formatkit.contract.options import Split

if TYPE_CHECKING:
    from formatkit.scan.deletes.locations import Spelling

__all__ = [
    "DELETION_VECTORS",
    "EQUALITY_DELETES",
    "POSITION_DELETES",
    "PUFFIN",
    "DeleteFile",
    "FileTask",
    "Verification",
]

POSITION_DELETES = "position deletes"
EQUALITY_DELETES = "equality deletes"
DELETION_VECTORS = "deletion vectors"
PUFFIN = "puffin"
"""The format of files with deletion vectors, which no plugin reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A file of deletes, or a deletion vector in one, that applies to a data file.

    Attributes:
        kind: ``"position deletes"``, ``"equality deletes"`` or ``"deletion vectors"``.
        location: Where the file is.
        file_format: The name of its format, in lower case; ``puffin`` for deletion vectors.
        sequence_number: The data sequence number.
        row_count: How many rows it has; for a deletion vector, how many positions.
        size_bytes: The length of the whole file.
        equality_ids: The columns that equality deletes compare, ascending.
        scope: The spec and the partition that equality deletes are limited to; empty if they apply everywhere. Deletes
            of one scope differ in their sequence numbers only.
        partition_constants: The values of identity-partitioned columns, by field id.
        referenced_data_file: The data file that all of the deletes are about, if that is known.
        content_offset: Where in the file a deletion vector begins.
        content_size: How long it is.
        spellings: How position deletes spell the locations of data files, as far as that is known.
        has_key: Whether the table has key metadata for the file, so that it may be encrypted.
    """

    kind: str
    location: str
    file_format: str
    sequence_number: int
    row_count: int
    size_bytes: int
    equality_ids: tuple[int, ...] = ()
    scope: tuple[Any, ...] = ()
    partition_constants: Mapping[int, Any] = field(default_factory=dict, compare=False)
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size: int | None = None
    spellings: frozenset[Spelling | None] = frozenset()
    has_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """How a file is read to verify what was skipped (`read.verify-skipping`).

    Attributes:
        predicate: The whole filter, but for what is the same for all rows of a file by definition, such as `_file`.
        deletes: All delete files that apply by partition and sequence number, whatever their metrics say.
        skipped_by: The metadata by which the whole file is skipped; None if it is read.
    """

    predicate: BooleanExpression
    deletes: tuple[DeleteFile, ...] = ()
    skipped_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """One data file or a split of it, and what is to be done with its rows. Small, and survives pickling.

    Attributes:
        location: Where the file is, as the table metadata spells it.
        file_format: The name of its format, in lower case.
        size_bytes: The length of the whole file; None if it is not known.
        row_count: How many rows the whole file has; None if it is not known.
        residual: What is left of the filter after partition values and metrics were considered.
        split: The part to read, or None for the whole file.
        split_offsets: Where the part may be cut further without wasting a chunk.
        spec_id: The partition spec that the file was written with.
        partition: The values of the column `_partition`, or None if the file has no partition.
        partition_constants: The values of identity-partitioned columns, by field id.
        sequence_number: The data sequence number.
        first_row_id: The id of the file's first row, in tables that number their rows.
        sort_order_id: The table's sort order that the rows of the file are in; None if they are in none.
        deletes: What deletes rows of this file.
        has_key: Whether the table has key metadata for the file, so that it may be encrypted.
        verification: How to verify the task, if skipping is verified.
    """

    location: str
    file_format: str
    size_bytes: int | None = None
    row_count: int | None = None
    residual: BooleanExpression = field(default_factory=AlwaysTrue)
    split: Split | None = None
    split_offsets: tuple[int, ...] = ()
    spec_id: int = 0
    partition: tuple[Any, ...] | None = None
    partition_constants: Mapping[int, Any] = field(default_factory=dict)
    sequence_number: int | None = None
    first_row_id: int | None = None
    sort_order_id: int | None = None
    deletes: tuple[DeleteFile, ...] = ()
    has_key: bool = False
    verification: Verification | None = None

    @property
    def is_skipped(self) -> bool:
        """Whether the file is only in the plan because skipping is verified."""
        return self.verification is not None and self.verification.skipped_by is not None

    @property
    def bytes_to_read(self) -> int:
        """How much of the file the task stands for."""
        return self.split.length if self.split is not None else self.size_bytes or 0
