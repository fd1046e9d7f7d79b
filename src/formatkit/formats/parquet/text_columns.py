"""Columns of text: the forms in which pyarrow decodes them fastest, and how these become plain text.

Where a chunk has only dictionary pages, its dictionary and its indices are decoded, and expanded here. Other text is
decoded with offsets of 64 bits, before each of which pyarrow need not ask whether it still fits, and narrowed here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from formatkit.contract.storage import ByteSource
from formatkit.errors import CorruptFileError
from formatkit.formats.parquet.footer import Footer, RowGroup
from formatkit.formats.parquet.projection import Projection
from formatkit.formats.parquet.pruning.page_index import ChunkIndex

__all__ = ["PlainText", "TextForms", "check_text", "text_forms"]

_MOST_TEXT_BYTES = 2**31 - 1
_MOST_WIDE_BYTES = 2**30
"""Longer chunks are decoded with small offsets, so that pyarrow cuts their batches before it holds them twice."""
_NARROW = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


@dataclass(frozen=True, kw_only=True)
class TextForms:
    """How to decode the text of some row groups, by leaf.

    Attributes:
        expanded: As a dictionary, which is then expanded.
        wide: With offsets of 64 bits. pyarrow decodes no dictionary in the same reader.
    """

    expanded: list[int]
    wide: list[int]


def text_forms(
    source: ByteSource,
    footer: Footer,
    projection: Projection,
    row_groups: Sequence[RowGroup],
    others: Collection[int],
) -> TextForms:
    """Choose the forms for the columns of a projection but `others`; the rest have the decoder's own."""
    columns = zip(projection.leaves_of, projection.schema, strict=False)
    text = [leaves[0] for leaves, field in columns if leaves and _is_text(field.type) and leaves[0] not in others]
    if footer.decryption is not None:
        return TextForms(expanded=[], wide=[])
    expanded = [
        leaf for leaf in text if all(_has_only_dictionary_pages(source, footer, group, leaf) for group in row_groups)
    ]
    wide = [leaf for leaf in text if leaf not in expanded and all(_is_short(group, leaf) for group in row_groups)]
    return TextForms(expanded=expanded, wide=wide)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _has_only_dictionary_pages(source: ByteSource, footer: Footer, row_group: RowGroup, leaf: int) -> bool:
    record = footer.chunk_record(row_group, leaf)
    chunk = row_group.metadata.column(leaf)
    return record is not None and ChunkIndex(source, chunk, record, row_group.rows).all_dictionary


def _is_short(row_group: RowGroup, leaf: int) -> bool:
    return row_group.metadata.column(leaf).total_uncompressed_size <= _MOST_WIDE_BYTES


class PlainText:
    """Makes plain text of decoded columns.

    Args:
        projection: What was asked for.
        pool: Where the memory comes from.
    """

    def __init__(self, projection: Projection, pool: pa.MemoryPool | None) -> None:
        kinds = zip(projection.schema.types, projection.decoded, strict=False)
        self._wants_text = [_is_text(kind) for kind, is_decoded in kinds if is_decoded]
        self._pool = pool
        self._steps: dict[int, pa.Buffer] = {}

    def parts(self, columns: Sequence[pa.Array[Any]], rows: int) -> Iterator[tuple[list[pa.Array[Any]], int]]:
        """The columns and how many rows they have; in parts, if small offsets do not reach the end of their text."""
        if any(map(_is_out_of_reach, compress(columns, self._wants_text))):
            for start, end in ((0, rows // 2), (rows // 2, rows)):
                # A slice would keep its offsets.
                kept = np.arange(start, end)
                yield from self.parts([column.take(kept) for column in columns], end - start)
        else:
            wanted = zip(columns, self._wants_text, strict=True)
            yield [self._plain(column) if is_text else column for column, is_text in wanted], rows

    def _plain(self, column: pa.Array[Any]) -> pa.Array[Any]:
        if isinstance(column, pa.DictionaryArray):
            return self._expanded(column)
        narrow = _NARROW.get(column.type)
        return column if narrow is None else column.cast(narrow, memory_pool=self._pool)

    def _expanded(self, column: pa.DictionaryArray[Any, Any]) -> pa.Array[Any]:
        dictionary = self._plain(column.dictionary)
        expanded = self._expanded_codes(column, dictionary)
        return pc.take(dictionary, column.indices, memory_pool=self._pool) if expanded is None else expanded

    def _expanded_codes(self, column: pa.DictionaryArray[Any, Any], dictionary: pa.Array[Any]) -> pa.Array[Any] | None:
        """The values, if all are of one length, such as codes, which makes their places known. None for others."""
        rows, count = len(column), len(dictionary)
        if column.null_count or dictionary.null_count or not 0 < count <= rows or column.indices.type != pa.int32():
            return None
        _, offsets, data = dictionary.buffers()
        ends = _numbers(offsets, np.int32, count + 1, dictionary.offset)
        width = int(ends[1] - ends[0])
        if not 0 < width * rows <= _MOST_TEXT_BYTES or np.any(np.diff(ends) != width):
            return None
        indices = _numbers(column.indices.buffers()[1], np.uint32, rows, column.indices.offset)
        if indices.max() >= count:
            return None
        code = np.dtype((np.void, width))
        values = _items(data, code, count, int(ends[0]))
        room = pa.allocate_buffer(rows * width, self._pool)
        # The indices are known to be in range, so nothing is clipped; the other modes would copy once more.
        np.take(values, indices, out=_items(room, code, rows), mode="clip")
        return pa.Array.from_buffers(dictionary.type, rows, [None, self._offsets(width, rows), room])

    def _offsets(self, width: int, rows: int) -> pa.Buffer:
        """Offsets of values of one length. Batches share them."""
        length = (rows + 1) * 4
        steps = self._steps.get(width)
        if steps is None or steps.size < length:
            steps = pa.allocate_buffer(length, self._pool)
            np.multiply(np.arange(rows + 1, dtype=np.int32), width, out=_numbers(steps, np.int32, rows + 1))
            self._steps[width] = steps
        return steps.slice(0, length)


def check_text(columns: Sequence[pa.Array[Any]], names: Sequence[str], location: str) -> None:
    """Raise `CorruptFileError` if text in decoded columns, or within their values, is not UTF-8."""
    for column, name in zip(columns, names, strict=True):
        if not _is_utf8(column):
            message = (
                f"{location}: column {name!r} holds text that is not UTF-8, as Parquet demands of strings; "
                "leave the column out, or let its writer store it as UTF-8 or without the annotation STRING"
            )
            raise CorruptFileError(message, location=location)


def _is_utf8(column: pa.Array[Any]) -> bool:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _is_ascii(column) or _is_valid(column)
    if isinstance(column, pa.DictionaryArray):
        return _is_utf8(column.dictionary)
    if isinstance(column, pa.StructArray):
        return all(_is_utf8(column.field(number)) for number in range(kind.num_fields))
    if isinstance(column, pa.MapArray):
        return _is_utf8(column.keys) and _is_utf8(column.items)
    return not isinstance(column, pa.ListArray) or _is_utf8(column.values)


def _is_ascii(text: pa.Array[Any]) -> bool:
    """Most text is, and that is seen much faster than checked."""
    _, offsets, data = text.buffers()
    if data is None or not len(text):
        return True
    kind = np.int32 if pa.types.is_string(text.type) else np.int64
    ends = _numbers(offsets, kind, len(text) + 1, text.offset)
    start, end = int(ends[0]), int(ends[-1])
    return start == end or bool(_numbers(data, np.int8, end - start, start).min() >= 0)


def _is_valid(text: pa.Array[Any]) -> bool:
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _is_out_of_reach(column: pa.Array[Any]) -> bool:
    if column.type not in _NARROW or not len(column):
        return False
    return bool(_numbers(column.buffers()[1], np.int64, 1, column.offset + len(column))[0] > _MOST_TEXT_BYTES)


def _numbers(buffer: Any, kind: type[np.integer[Any]], count: int, first: int = 0) -> np.ndarray[Any, Any]:
    return _items(buffer, np.dtype(kind), count, first * np.dtype(kind).itemsize)


def _items(buffer: Any, kind: np.dtype[Any], count: int, start: int = 0) -> np.ndarray[Any, Any]:
    return np.frombuffer(buffer, kind, count, start)
