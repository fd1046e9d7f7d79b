"""What is asked of a plugin. Frozen and keyword-only, so that options can be added without breaking anyone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema

from formatkit.contract.fields import check_schema

__all__ = ["Encryption", "OpenOptions", "ReadOptions", "Split", "WriteOptions"]

DEFAULT_BATCH_ROWS = 32_768


@dataclass(frozen=True, kw_only=True)
class Encryption:
    """The key of one file, for formats that declare `Capability.ENCRYPTION`."""

    key: bytes = field(repr=False)
    aad_prefix: bytes = b""


@dataclass(frozen=True, kw_only=True)
class OpenOptions:
    """How to open a file.

    `properties` are free-form strings (`read.parquet.…`); a plugin ignores those that it does not know.
    """

    encryption: Encryption | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Split:
    """The byte range [start, start + length) of a file. Which chunks it owns is the format's rule (clause R5)."""

    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What to read of an open file.

    Attributes:
        projection: The columns to decode: a part of `FormatFile.schema`, in the file's order, with the file's own
            names and types at every level. Columns are found by these names: ids are those that the kernel resolved,
            which may be others than the file's. It may hold the metadata column `_pos` (clause R6) as its last field.
        predicate: Which rows are wanted, bound to fields of the projection (its ids, its types), without `Not`.
            `AlwaysTrue` for all.
        target: The table's schema for the output; only readers that declare `Capability.EVOLVE` look at it.
        split: The byte range to read, or None for the whole file.
        batch_rows: No batch has more rows than this.
        dictionary_columns: Ids of string and binary columns that the caller would like in dictionary form.
        threads: On how many threads at once the reader may decode, the caller's included. It does so while it is asked
            for a batch; when it returns one, the others rest.
        properties: As in `OpenOptions`.
    """

    projection: Schema
    predicate: BooleanExpression = field(default_factory=AlwaysTrue)
    target: Schema | None = None
    split: Split | None = None
    batch_rows: int = DEFAULT_BATCH_ROWS
    dictionary_columns: frozenset[int] = frozenset()
    threads: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """How to write one file.

    Attributes:
        schema: The schema of every batch that will be written, ids at every level.
        properties: `write.*` properties of the table; unknown ones are ignored.
        metadata: Key-value pairs for the file's own metadata.
        encryption: Only for formats that declare `Capability.ENCRYPTION`.
        overwrite: Whether a file at the location may be replaced.

    Raises:
        UnsupportedError: The schema has too many levels.
    """

    schema: Schema
    properties: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    encryption: Encryption | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        check_schema(self.schema)
