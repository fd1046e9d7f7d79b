"""The promise between a file format and everything else.

A format author implements `FormatPlugin` for one (file format, batch type) pair and registers it under the entry-point
group ``formatkit.formats``. The clauses below are what the TCK proves; R is for reading, W for writing.

How a batch relates to a schema
-------------------------------
A batch never stands alone: it comes with a `pyiceberg.schema.Schema`, and its columns are that schema's fields **by
position**, at every level. Names and metadata inside the batch carry no meaning.

How ids relate to files
-----------------------
The kernel resolves ids, a name mapping and promotions before it asks for rows. A reader therefore sees its own names
and its own types only: the projection is a part of the schema it reported, and the predicate is bound to those fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar, runtime_checkable

from pyiceberg.schema import Schema

from formatkit.contract.capability import Capability
from formatkit.contract.options import OpenOptions, ReadOptions, WriteOptions
from formatkit.contract.results import ReadResult, WriteResult
from formatkit.contract.storage import ByteRange, ByteSink, ByteSource

__all__ = [
    "FormatFile",
    "FormatFileWriter",
    "FormatPlugin",
    "FormatReader",
    "FormatWriter",
    "SaysWhatItOpensWith",
    "UsesThreads",
]

B = TypeVar("B")
B_contra = TypeVar("B_contra", contravariant=True)


class FormatFile(Protocol[B]):
    """A file that was opened: its own description, and any number of reads of it.

    Clauses
    -------
    R1  `schema` describes the file as it is, without looking at any table: the file's names, its columns as Iceberg
        types, and the ids that the file stores. A field for which the file stores no id has a unique **negative** id.
        Ids are never invented from positions or names.
    R2  A column whose type Iceberg cannot hold is part of `schema` as `unknown`, and `unreadable` maps its id to the
        reason. The rest of the file stays readable.
    R3  `read` decodes the columns of `options.projection` and no others. The batches have exactly these columns, in
        this order, nested ones included, in any physical form that `DataBatch` accepts. An empty projection gives
        batches without columns and the right row counts. Only a reader that was given a target may evolve.
    R4  Rows may be left out only if the predicate is false for them. `residual` is then honest: applying it to the
        returned rows gives exactly the rows for which the predicate is true. A reader that evaluates nothing returns
        the predicate itself.
        Legal: skip a chunk by its statistics and return the whole predicate.
        Illegal: skip a chunk by its statistics and return `AlwaysTrue` although other rows may fail.
    R5  Of any set of splits that tile the file, exactly one returns each row. A reader that does not declare
        `Capability.SPLIT` raises `UnsupportedError` for a split other than the whole file.
        Legal: a row group belongs to the split that holds its midpoint. Illegal: to every split that it overlaps.
    R6  If the projection holds the metadata column `_pos` (long, id 2147483645, always last), it is filled with the
        row's ordinal in the *file*, whatever was skipped, split or filtered.
    R7  No batch has more than `options.batch_rows` rows, rows come in file order, and batches stay valid after the next
        one is read and after everything was closed.
    R8  A read that is closed early or that fails releases everything that it opened. Unreadable bytes raise
        `CorruptFileError` with the location; they never end the stream as if the data had ended.
    R9  Unknown properties are ignored. Encryption that is asked for and not declared raises `UnsupportedError`.
    """

    @property
    def schema(self) -> Schema: ...

    @property
    def unreadable(self) -> Mapping[int, str]: ...

    @property
    def row_count(self) -> int | None:
        """The number of rows, if the file says so without decoding it."""
        ...

    @property
    def split_offsets(self) -> tuple[int, ...]:
        """Offsets at which a split may start without wasting a chunk; empty if the format has none."""
        ...

    @property
    def metadata(self) -> Mapping[str, str]:
        """The key-value pairs stored in the file."""
        ...

    def read(self, options: ReadOptions) -> ReadResult[B]: ...

    def describe(self) -> Mapping[str, Any]:
        """Facts for a person who inspects the file: codec, chunks, writer. JSON values only."""
        ...

    def close(self) -> None: ...


class FormatReader(Protocol[B]):
    """Opens files of one format. Holds no state of any file; one reader serves many threads."""

    def open(self, source: ByteSource, options: OpenOptions) -> FormatFile[B]:
        """Read the file's description.

        The source stays the caller's: closing the `FormatFile` does not close it.
        """
        ...


@runtime_checkable
class SaysWhatItOpensWith(Protocol):
    """What a `FormatReader` may also do, so that files are fetched before they are opened."""

    def opening_ranges(self, size: int) -> Sequence[ByteRange]:
        """What `open` reads first of a file of this length. Without it that is taken to be the end of the file."""
        ...


@runtime_checkable
class UsesThreads(Protocol):
    """What a `FormatReader` has that decodes on several threads if it may (`ReadOptions.threads`)."""

    @property
    def uses_threads(self) -> bool: ...


class FormatFileWriter(Protocol[B_contra]):
    """One file being written.

    Clauses
    -------
    W1  What was written is what is read back: every value, null, NaN, and empty or null list.
    W2  The batches match `options.schema` by position, in any physical form; a null where it requires a value raises
        `InvalidDataError`. Ids are stored at every level where `Capability.FIELD_IDS` is declared.
    W3  `close` publishes the file and returns its `WriteResult`; calling it again returns the same. Where no row was
        written no file is left at the location and `close` returns None.
    W4  `abort`, or an exception inside the `with` block, leaves no file behind. `close` after `abort` raises.
    W5  `split_offsets` ascend, lie inside the file and number one a chunk. `size_bytes` is the stored length.
    W6  Columns of type `unknown` are not stored.
    """

    def write(self, batch: B_contra) -> None: ...

    def bytes_written(self) -> int:
        """About how long the file would be if it were closed now; what rolling files by size goes by."""
        ...

    def close(self) -> WriteResult | None: ...

    def abort(self) -> None: ...

    def __enter__(self) -> FormatFileWriter[B_contra]: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class FormatWriter(Protocol[B_contra]):
    """Creates files of one format."""

    def open(self, sink: ByteSink, options: WriteOptions) -> FormatFileWriter[B_contra]: ...


class FormatPlugin(Protocol[B]):
    """One file format for one batch type: what the entry point names, a class without constructor arguments.

    Attributes:
        file_format: The name that table metadata uses, in lower case. Also the name of the entry point, which may be
            followed by ``+`` and the batch type (``parquet+polars.DataFrame``), so that the plugin is imported only
            for those who ask for that type.
        batch_type: The class of the batches.
        capabilities: What the plugin may do beyond the clauses that hold for all.
        extensions: File name endings, with the dot.
        magic: How a file of this format begins, or empty if it cannot be told.
    """

    @property
    def file_format(self) -> str: ...

    @property
    def batch_type(self) -> type[B]: ...

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    @property
    def extensions(self) -> tuple[str, ...]: ...

    @property
    def magic(self) -> bytes: ...

    def reader(self) -> FormatReader[B]:
        """The reader; raises `UnsupportedError` if the format can only be written."""
        ...

    def writer(self) -> FormatWriter[B]:
        """The writer; raises `UnsupportedError` if the format can only be read."""
        ...
