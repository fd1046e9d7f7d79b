"""The footer of a file: found, checked, and read once for all reads of the file."""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

from formatkit.contract.options import Encryption
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import ConfigurationError, CorruptFileError
from formatkit.forks import cached
from formatkit.formats.parquet.chunk_check import check_column_chunks
from formatkit.formats.parquet.chunk_record import ChunkRecord, chunk_start, find_chunk_record
from formatkit.formats.parquet.failures import corrupt, reading
from formatkit.formats.parquet.schema import FileSchema, file_schema
from formatkit.formats.parquet.stored_schema import StoredElements, stored_elements
from formatkit.formats.parquet.thrift import Fields, ThriftError, without_fields

__all__ = ["Footer", "RowGroup", "read_footer"]

_ARROW_SCHEMA_KEY = "ARROW:schema"
_HIDDEN_ARROW_SCHEMA_KEY = "ARROW:SCHEMA"

_MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"
_TAIL = struct.Struct("<I4s")
_UNKNOWN_CODEC = -1
_FIRST_READ_BYTES = 64 * 1024
_REMEMBERED_FOOTERS = 128
_REMEMBERED_BYTES = 32 * 1024
"""So many footers of at most so many bytes are kept; planning and reading a file would parse it twice otherwise."""
_REMEMBERED_LONG_FOOTERS = 4
_REMEMBERED_LONG_BYTES = 512 * 1024
"""The same for longer ones."""


_HINTS: Fields = {4: {1: {3: {12: {}, 13: {}, 16: {}, 17: {}}}}, 7: {}}
"""Statistics of column chunks, and the order of their bounds. pyarrow refuses a file in which they are damaged."""

_STATISTICS, _BOUNDS = 12, (1, 2, 5, 6)
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class ChunkExtent(NamedTuple):
    """What the footer says about the size of a column chunk."""

    start: int
    length: int
    uncompressed_length: int
    values: int


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """One row group: which one, the ordinal of its first row, its rows, and what pyarrow knows about its chunks."""

    index: int
    first_row: int
    rows: int
    metadata: pq.RowGroupMetaData
    _extents: dict[int, ChunkExtent] = field(default_factory=dict, repr=False, compare=False)

    def extent(self, leaf: int) -> ChunkExtent:
        """Where a column chunk is, and how large. Asking pyarrow once is enough."""
        found = self._extents.get(leaf)
        if found is None:
            chunk = self.metadata.column(leaf)
            found = self._extents[leaf] = ChunkExtent(
                chunk_start(chunk),
                chunk.total_compressed_size,
                chunk.total_uncompressed_size,
                chunk.num_values,
            )
        return found

    def chunk_ranges(self, leaves: Sequence[int]) -> Iterator[ByteRange]:
        """Where the pages of some leaves are."""
        return (ByteRange(*self.extent(leaf)[:2]) for leaf in leaves)

    @cached
    def start(self) -> int:
        """Where its pages begin; where those of any file begin, if it has none."""
        return chunk_start(self.metadata.column(0)) if self.metadata.num_columns else len(_MAGIC)

    @cached
    def midpoint(self) -> int:
        """The byte that decides which split it belongs to."""
        leaves = range(self.metadata.num_columns)
        return self.start + sum(self.metadata.column(leaf).total_compressed_size for leaf in leaves) // 2


@dataclass(frozen=True, kw_only=True)
class Footer:
    """What the footer says.

    Attributes:
        location: The file.
        file_size: Its length in bytes.
        data: The footer as it is stored, decrypted.
        columns: The schema.
        metadata: Row groups and column chunks, as pyarrow reads them.
        decryption: What every reader of an encrypted file needs; None for a plain file.
    """

    location: str
    file_size: int
    data: bytes
    columns: FileSchema
    metadata: pq.FileMetaData
    decryption: Any = None
    _records: dict[tuple[int, int], ChunkRecord | None] = field(default_factory=dict, repr=False)

    @property
    def key_values(self) -> dict[str, str]:
        """The key-value pairs of the file."""
        stored = self.metadata.metadata or {}
        pairs = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in stored.items()}
        if _HIDDEN_ARROW_SCHEMA_KEY in pairs:
            pairs[_ARROW_SCHEMA_KEY] = pairs.pop(_HIDDEN_ARROW_SCHEMA_KEY)
        return pairs

    @property
    def created_by(self) -> str:
        """The writer, as far as it can be read."""
        try:
            return self.metadata.created_by or ""
        except UnicodeDecodeError:
            return ""

    @cached
    def row_groups(self) -> tuple[RowGroup, ...]:
        """The row groups that hold rows. Their chunks may be looked at after `require_sound_chunks`."""
        found, first_row = [], 0
        for index in range(self.metadata.num_row_groups):
            metadata = self.metadata.row_group(index)
            rows, columns = metadata.num_rows, metadata.num_columns
            if columns != self.metadata.num_columns:
                # pyarrow ends the process if it is asked for a column that the schema does not have.
                message = f"row group {index} has {columns} columns, its schema {self.metadata.num_columns}"
                raise corrupt(self.location, message)
            if rows < 0:
                raise corrupt(self.location, f"row group {index} claims {rows} rows")
            if rows:
                found.append(RowGroup(index=index, first_row=first_row, rows=rows, metadata=metadata))
            first_row += rows
        # Some writers leave the count of the whole file at 0.
        if self.metadata.num_rows not in (0, first_row):
            raise corrupt(self.location, f"its row groups hold {first_row} rows, its footer {self.metadata.num_rows}")
        return tuple(found)

    @property
    def row_count(self) -> int:
        """How many rows the file has."""
        return int(self.metadata.num_rows) or sum(row_group.rows for row_group in self.row_groups)

    def row_groups_at(self, indices: Collection[int]) -> list[RowGroup]:
        """Some of the row groups, whose chunks can be looked at."""
        self.require_sound_chunks()
        return [row_group for row_group in self.row_groups if row_group.index in indices]

    def chunk_record(self, row_group: RowGroup, leaf: int) -> ChunkRecord | None:
        """What is stored about a column chunk, if it can be found."""
        key = row_group.index, leaf
        if key not in self._records:
            before = self._records.get((row_group.index - 1, leaf))
            start = 0 if before is None else before.place
            self._records[key] = find_chunk_record(self.data, row_group.metadata.column(leaf), start)
        return self._records[key]

    def codec(self, row_group: RowGroup, leaf: int) -> int:
        """The number of a column chunk's codec, or a negative one if it is not known."""
        # pyarrow ends the process if it is asked for a codec whose number it does not know.
        record = self.chunk_record(row_group, leaf)
        return _UNKNOWN_CODEC if record is None else record.codec

    def require_sound_chunks(self) -> None:
        """Raise `CorruptFileError` unless what the footer says about column chunks can be looked at."""
        _ = self._sound_chunks

    @cached
    def _sound_chunks(self) -> bool:
        # An encrypted footer was authenticated, so that nobody but its writer can have damaged it.
        if self.decryption is None:
            check_column_chunks(self.metadata, self.file_size, self.location)
        return True

    def metadata_to_decode(self, row_groups: Collection[int], leaves: Sequence[int]) -> pq.FileMetaData:
        """What pyarrow is shown to decode some chunks: no statistics if it would refuse them."""
        schema, chosen = self.metadata.schema, self.row_groups_at(set(row_groups))
        for leaf in leaves:
            width = _WIDTHS.get(schema.column(leaf).physical_type, 0)
            if width and any(self._has_short_bounds(row_group, leaf, width) for row_group in chosen):
                return self._bare_metadata
        return self.metadata

    def _has_short_bounds(self, row_group: RowGroup, leaf: int, width: int) -> bool:
        record = self.chunk_record(row_group, leaf)
        stored = None if record is None else record.meta_data.get(_STATISTICS)
        if not isinstance(stored, dict):
            return False
        return any(isinstance(stored.get(bound), bytes) and len(stored[bound]) < width for bound in _BOUNDS)

    @cached
    def _bare_metadata(self) -> pq.FileMetaData:
        return _without_hints(self.data, self.columns, self.location)


def read_footer(source: ByteSource, encryption: Encryption | None) -> Footer:
    """Read the footer. Raises `CorruptFileError` for a file that has none."""
    data, magic = _footer_bytes(source)
    location = source.location
    if encryption is not None:
        return _read_with_key(source, data, encryption, encrypted=magic == _ENCRYPTED_MAGIC)
    if magic == _ENCRYPTED_MAGIC:
        msg = f"{location}: is encrypted; its key is needed to open it (OpenOptions.encryption)"
        raise ConfigurationError(msg, location=location)
    size = len(data)
    parse = (
        _remembered if size <= _REMEMBERED_BYTES else _remembered_long if size <= _REMEMBERED_LONG_BYTES else _parsed
    )
    return parse(location, source.size(), data)


def _parsed(location: str, file_size: int, data: bytes) -> Footer:
    stored = _stored_elements(data, location)
    columns = file_schema(stored.elements, location)
    for_pyarrow = _without_arrow_schema(stored.footer_shown(columns.shown))
    try:
        with reading(location):
            metadata = pq.read_metadata(pa.BufferReader(_as_file(for_pyarrow)))
    except CorruptFileError:
        metadata = _without_hints(data, columns, location)
    return Footer(location=location, file_size=file_size, data=data, columns=columns, metadata=metadata)


# Keyed by content: a file that was read before costs its footer's bytes again, but not their meaning.
_remembered = lru_cache(maxsize=_REMEMBERED_FOOTERS)(_parsed)
_remembered_long = lru_cache(maxsize=_REMEMBERED_LONG_FOOTERS)(_parsed)


def _without_hints(data: bytes, columns: FileSchema, location: str) -> pq.FileMetaData:
    """What pyarrow makes of a footer without statistics."""
    stored = _stored_elements(data, location)
    for_pyarrow = _without_arrow_schema(stored.footer_shown(columns.shown))
    try:
        bare = without_fields(for_pyarrow, _HINTS)
    except ThriftError as error:
        raise corrupt(location, f"its footer cannot be decoded: {error}") from error
    with reading(location):
        return pq.read_metadata(pa.BufferReader(_as_file(bare)))


def _read_with_key(source: ByteSource, data: bytes, encryption: Encryption, *, encrypted: bool) -> Footer:
    location = source.location
    try:
        decryption = pe.create_decryption_properties(  # type: ignore[attr-defined]  # the stubs lack it
            encryption.key, aad_prefix=encryption.aad_prefix or None
        )
    except ValueError as error:
        raise ConfigurationError(f"{location}: the key cannot be used: {error}", location=location) from error
    with reading(location), closing(source.open()) as file:
        metadata = pq.ParquetFile(file, decryption_properties=decryption).metadata
        if encrypted:
            data = _decrypted(metadata)
    return Footer(
        location=location,
        file_size=source.size(),
        data=data,
        columns=file_schema(_stored_elements(data, location).elements, location),
        metadata=metadata,
        decryption=decryption,
    )


def _footer_bytes(source: ByteSource) -> tuple[bytes, bytes]:
    location, size = source.location, source.size()
    if size < len(_MAGIC) + _TAIL.size:
        raise CorruptFileError(
            f"{location}: is not a Parquet file: it has {size} bytes, and no Parquet file is that short",
            location=location,
        )
    tail = source.read(size - (length := min(size, _FIRST_READ_BYTES)), length)
    footer_length, magic = _TAIL.unpack_from(tail, length - _TAIL.size)
    if magic not in (_MAGIC, _ENCRYPTED_MAGIC):
        begins = bytes(source.read(0, len(_MAGIC)))
        kind = "is a truncated Parquet file" if begins == _MAGIC else "is not a Parquet file"
        raise CorruptFileError(
            f"{location}: {kind}: it begins with {begins!r} and ends with {magic!r}", location=location
        )
    start = size - _TAIL.size - footer_length
    if start < len(_MAGIC):
        raise corrupt(location, f"its footer claims {footer_length} bytes, the file has {size}")
    if footer_length > length - _TAIL.size:
        return bytes(source.read(start, footer_length)), magic
    return bytes(tail[length - _TAIL.size - footer_length : length - _TAIL.size]), magic


def _stored_elements(footer: bytes, location: str) -> StoredElements:
    try:
        return stored_elements(footer)
    except ThriftError as error:
        raise corrupt(location, f"its footer cannot be decoded: {error}") from error


def _as_file(footer: bytes) -> bytes:
    """The least that pyarrow takes for a Parquet file."""
    return b"".join((_MAGIC, footer, _TAIL.pack(len(footer), _MAGIC)))


def _without_arrow_schema(footer: bytes) -> bytes:
    """Hide the Arrow schema that Arrow's writers store, so that types depend on the Parquet schema only."""
    # As Thrift stores it: a string field of twelve bytes. Key-value pairs come after the row groups.
    prefix = b"\x18\x0c"
    at = footer.rfind(prefix + _ARROW_SCHEMA_KEY.encode())
    if at < 0:
        return footer
    end = at + len(prefix) + len(_ARROW_SCHEMA_KEY)
    return b"".join((footer[:at], prefix, _HIDDEN_ARROW_SCHEMA_KEY.encode(), footer[end:]))


def _decrypted(metadata: pq.FileMetaData) -> bytes:
    """The footer as pyarrow decrypted it."""
    sink = io.BytesIO()
    metadata.write_metadata_file(sink)
    data = sink.getvalue()
    length, _ = _TAIL.unpack_from(data, len(data) - _TAIL.size)
    return data[-_TAIL.size - length : -_TAIL.size]
