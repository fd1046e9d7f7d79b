"""Decodes row groups with pyarrow: one thread, bounded buffers, one open file for the life of the iteration."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from formatkit.contract.options import DEFAULT_BATCH_ROWS
from formatkit.contract.storage import ByteSource
from formatkit.errors import CorruptFileError
from formatkit.formats.parquet.column_readers import LeafReader, decode_in_step
from formatkit.formats.parquet.failures import corrupt, reading
from formatkit.formats.parquet.flat_reader import FlatReader, choose_flat
from formatkit.formats.parquet.footer import Footer, RowGroup
from formatkit.formats.parquet.projection import Projection
from formatkit.formats.parquet.pruning.row_groups import RowGroupRead
from formatkit.formats.parquet.read.mended_pages import mended_file
from formatkit.formats.parquet.read.page_check import CheckedFile, CheckedReader, PageChecks
from formatkit.formats.parquet.text_columns import PlainText, check_text, text_forms

__all__ = ["HowToDecode", "decode", "open_decoder", "open_page_file"]

_BUFFER_BYTES = 4 * 1024 * 1024
_MIN_COLUMN_BUFFER = 64 * 1024
_MAX_COLUMN_BUFFER = 1024 * 1024
_STEP_ROWS = 65_536
_STEP_BYTES = 8 * 1024 * 1024
"""Batches of the usual size are cut from larger ones, of so many rows or bytes, because each step has its price."""

_MOST_STEP_BYTES = 512 * 1024 * 1024
"""No step has more, however many rows a batch may have: texts are to fit into arrays."""

_WHOLE_BYTES = 32 * 1024 * 1024
"""Chunks of a row group that are no longer than this together are taken as a whole where each read has its price."""


@dataclass(frozen=True, kw_only=True)
class HowToDecode:
    """What does not change which rows there are.

    Attributes:
        batch_rows: No batch has more rows than this.
        pool: Where the memory of batches comes from.
        threads: On how many threads to decode.
    """

    batch_rows: int
    pool: pa.MemoryPool | None = None
    threads: int = 1


def decode(
    source: ByteSource,
    footer: Footer,
    projection: Projection,
    row_groups: Sequence[RowGroupRead],
    how: HowToDecode,
    counters: MutableMapping[str, int],
) -> Iterator[pa.RecordBatch]:
    """All rows of the row groups, in file order."""
    batch_rows, pool = how.batch_rows, how.pool
    if not projection.leaves:
        yield from _count(projection, row_groups, batch_rows)
        return
    with reading(source.location), closing(source.open()) as file:
        indices = [row_group.index for row_group in row_groups]
        flat = choose_flat(footer, projection, footer.row_groups_at(set(indices)))
        forms = text_forms(source, footer, projection, footer.row_groups_at(set(indices)), flat)
        dictionary_leaves = projection.dictionary_leaves + forms.expanded
        other_leaves = [leaf for leaf in projection.leaves if leaf not in forms.wide and leaf not in flat]
        open_ = partial(open_decoder, file, footer, indices, projection.leaves, dictionary_leaves, pool)
        readers = [LeafReader(open_(), other_leaves)] if other_leaves else []
        if forms.wide:
            readers.append(LeafReader(open_(wide_text=True), forms.wide))
        if flat:
            reader = FlatReader(source, file, footer, flat, open_, counters, pool, how.threads)
            readers.append(LeafReader(reader, list(flat)))
        columns = [leaves for leaves in projection.leaves_of if leaves]
        names = list(compress(projection.schema.names, projection.decoded))
        text = PlainText(projection, pool)
        checked = projection.without_checks(flat) if flat else projection
        step_rows = _step_rows(footer.row_groups_at(set(indices)), projection.leaves, batch_rows)
        for run in _runs(row_groups):
            first_row = run[0].first_row
            indices = [row_group.index for row_group in run]
            for decoded, decoded_rows in decode_in_step(readers, columns, indices, step_rows):
                check_text(decoded, names, source.location)
                for arrays, rows in text.parts(decoded, decoded_rows):
                    batch = checked.batch(arrays, rows, first_row)
                    yield from (batch.slice(start, batch_rows) for start in range(0, rows, batch_rows))
                    first_row += rows
            if first_row != run[-1].end_row:
                raise _short(source.location, run, first_row)


def _step_rows(row_groups: Sequence[RowGroup], leaves: Sequence[int], batch_rows: int) -> int:
    """How many rows are decoded at once: as many as several batches, unless they are large."""
    # Who asks for smaller ones wants little to be decoded, such as the first rows only.
    if batch_rows < DEFAULT_BATCH_ROWS:
        return batch_rows
    rows = sum(row_group.rows for row_group in row_groups)
    size = sum(group.extent(leaf).uncompressed_length for group in row_groups for leaf in leaves)
    most = min(_STEP_ROWS, _STEP_BYTES * rows // max(size, 1))
    fitting = max(_MOST_STEP_BYTES * rows // max(size, 1), 1)
    return batch_rows * (most // batch_rows) if most >= batch_rows else min(batch_rows, fitting)


def open_decoder(
    file: BinaryIO,
    footer: Footer,
    row_groups: Sequence[int],
    leaves: Sequence[int],
    dictionary_leaves: Sequence[int],
    pool: pa.MemoryPool | None = None,
    *,
    wide_text: bool = False,
) -> CheckedReader:
    """The reader of leaves by index that `ParquetFile` wraps, for a few leaves of some row groups."""
    checks = PageChecks(footer)
    checked: Any = file
    if not checks.are_off and not _is_read_by_pyarrow(file):
        checked = CheckedFile(file, checks, checks.chunks(footer.row_groups_at(set(row_groups)), leaves))
    reader = _open(
        checked,
        dictionary_leaves,
        pool,
        # pyarrow finds the keys of an encrypted file only while it reads the footer itself.
        metadata=footer.metadata_to_decode(row_groups, leaves) if footer.decryption is None else None,
        decryption_properties=footer.decryption,
        buffer_size=_buffer_size(file, footer, row_groups, leaves),
        binary_type=pa.large_binary() if wide_text else None,
    )
    binary_type = pa.large_binary() if wide_text else None

    def mend(row_group: RowGroup, chosen: Sequence[int]) -> pq.ParquetReader | None:
        # Pages of encrypted files are not seen here.
        content = mended_file(file, footer, row_group, chosen) if footer.decryption is None else None
        if content is None:
            return None
        return _open(pa.BufferReader(content), dictionary_leaves, pool, binary_type=binary_type)

    return CheckedReader(reader, checks, footer, file, mend)


def _is_read_by_pyarrow(file: object) -> bool:
    """Whether reads call neither Python nor a storage that one would have to wait for."""
    return isinstance(file, pa.NativeFile)


def _buffer_size(file: BinaryIO, footer: Footer, row_groups: Sequence[int], leaves: Sequence[int]) -> int:
    """How much of a column is read at once; 0 for all of its chunk."""
    # Each read of another file is a call of Python.
    if not _is_read_by_pyarrow(file):
        chosen = footer.row_groups_at(row_groups)
        if all(sum(part.length for part in one.chunk_ranges(leaves)) <= _WHOLE_BYTES for one in chosen):
            return 0
    return min(max(_BUFFER_BYTES // len(leaves), _MIN_COLUMN_BUFFER), _MAX_COLUMN_BUFFER)


def open_page_file(content: pa.Buffer, dictionary_leaves: Sequence[int]) -> pq.ParquetReader:
    """The same for a file in memory that holds some pages of another."""
    return _open(pa.BufferReader(content), dictionary_leaves, None)


def _open(
    source: BinaryIO | pa.NativeFile, dictionary_leaves: Sequence[int], pool: pa.MemoryPool | None, **options: Any
) -> pq.ParquetReader:
    reader = pq.ParquetReader(memory_pool=pool)
    reader.open(
        source,
        # Numbers work as well as names.
        read_dictionary=list(dictionary_leaves),
        pre_buffer=False,
        # The default, nanoseconds, wraps around silently outside the years 1677 to 2262.
        coerce_int96_timestamp_unit="us",
        # Costs nothing where the writer stored no checksums, and keeps wrong rows out where it did.
        page_checksum_verification=True,
        **options,
    )
    return reader


def _runs(row_groups: Sequence[RowGroupRead]) -> Iterator[list[RowGroupRead]]:
    """Row groups whose rows follow one another, so that small ones share a batch."""
    run: list[RowGroupRead] = []
    for row_group in row_groups:
        if run and run[-1].end_row != row_group.first_row:
            yield run
            run = []
        run.append(row_group)
    if run:
        yield run


def _short(location: str, run: Sequence[RowGroupRead], reached: int) -> CorruptFileError:
    promised, found = run[-1].end_row - run[0].first_row, reached - run[0].first_row
    return corrupt(location, f"row groups {run[0].index} to {run[-1].index} promise {promised} rows and hold {found}")


def _count(projection: Projection, row_groups: Sequence[RowGroupRead], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches without stored columns: nothing is decoded, nothing is opened."""
    for run in _runs(row_groups):
        end = run[-1].end_row
        for first_row in range(run[0].first_row, end, batch_rows):
            yield projection.batch((), min(batch_rows, end - first_row), first_row)
