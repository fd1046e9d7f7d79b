"""Lies about Parquet files that can be told from the file itself: statistics, page indexes and bloom filters."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from typing import Any

from hints.edits import OTHER_TYPES, Lie, become, put, remove

from support.mutations.parquet_file import Chunk, ParquetFile
from support.mutations.tree import Node, Numbered

__all__ = ["bloom_lies", "column_index_lies", "offset_index_lies", "order_lies", "row_lies", "statistics_lies"]

_HUGE = 1 << 40
_NAN = struct.pack("<d", float("nan"))
_WIDTHS = {1: 4, 2: 8, 4: 4, 5: 8}
_BYTE_ARRAY, _DOUBLE = 6, 5
_BOUNDS = {"max": 1, "min": 2, "max_value": 5, "min_value": 6}


def _rows(parts: ParquetFile, chunk: Chunk) -> int:
    groups = parts.footer["row_groups"].value
    return int(next(group["num_rows"].value for group in groups if chunk.record in group["columns"].value))


def _is_required(parts: ParquetFile, chunk: Chunk) -> bool:
    path = [name.value for name in chunk.record["meta_data"]["path_in_schema"].value]
    elements = [each for each in parts.footer["schema"].value if each["name"].value == path[0]]
    return len(path) == 1 and elements[0]["repetition_type"].value == 0


def _is_flat(chunk: Chunk) -> bool:
    return b"tags" not in [name.value for name in chunk.record["meta_data"]["path_in_schema"].value]


def _is_text(chunk: Chunk) -> bool:
    path = [name.value for name in chunk.record["meta_data"]["path_in_schema"].value]
    return path[-1] in (b"text", b"y")


def _wrong_values(physical: int, *, text: bool) -> Iterator[tuple[str, Any, bytes]]:
    """Contents that no bound of a physical type can have."""
    width = _WIDTHS.get(physical)
    if width is not None:
        yield "cut", "bytes", b"\1" * (width - 1)
        yield "long", "bytes", b"\1" * (width + 1)
        yield "empty", "bytes", b""
    if physical == _DOUBLE:
        yield "NaN", "bytes", _NAN
    if text:
        yield "no UTF-8", "bytes", b"m\xffm"


def statistics_lies(parts: ParquetFile, chunk: Chunk) -> Iterator[Lie]:
    """Lies about a whole column chunk."""
    meta = chunk.record["meta_data"]
    stored, rows = meta.get("statistics"), _rows(parts, chunk)
    if stored is None:
        return
    physical = meta["type"].value
    yield "no statistics", partial(remove, meta, "statistics")
    for kind, value in OTHER_TYPES[:2]:
        yield f"statistics are {kind}", partial(become, stored, kind, value)
    yield "empty statistics", partial(become, stored, "struct", [])
    nulls = partial(put, stored, "null_count", 3)
    for number in (-1, rows + 1, _HUGE, -_HUGE):
        yield f"null_count {number}", partial(nulls, "int", number)
    yield "null_count of another type", partial(nulls, "bytes", b"7")
    yield "no null_count", partial(remove, stored, "null_count")
    bounds = {key: node for key in _BOUNDS if (node := stored.get(key)) is not None}
    if "min_value" in bounds and "max_value" in bounds:
        yield "null_count of all rows beside bounds", partial(nulls, "int", rows)
        if bounds["min_value"].value != bounds["max_value"].value:
            yield "min above max", partial(_swap, stored)
    if meta.get("size_statistics") is not None and _is_flat(chunk) and not _is_required(parts, chunk):
        true = stored["null_count"].value if stored.get("null_count") is not None else 0
        for number in {0, 1, rows} - {true}:
            yield f"null_count {number} against the levels", partial(nulls, "int", number)
    if _is_required(parts, chunk):
        yield "nulls in a required column", partial(nulls, "int", 1)
    yield from _bound_lies(stored, bounds, physical, text=_is_text(chunk))


def _bound_lies(stored: Node, bounds: dict[str, Node], physical: int, *, text: bool) -> Iterator[Lie]:
    for key in bounds:
        yield f"no {key}", partial(remove, stored, key)
        for kind, value in OTHER_TYPES:
            if kind != "bytes":
                yield f"{key} is {kind}", partial(become, bounds[key], kind, value)
    for what, kind, value in _wrong_values(physical, text=text):
        for key in ("min_value", "max_value"):
            if key in bounds:
                yield f"{key} is {what}", partial(become, bounds[key], kind, value)


def _swap(stored: Node) -> None:
    for low, high in (("min_value", "max_value"), ("min", "max")):
        one, other = stored.get(low), stored.get(high)
        if one is not None and other is not None:
            one.value, other.value = other.value, one.value


def order_lies(parts: ParquetFile, chunk: Chunk) -> Iterator[Lie]:
    """Bounds that nobody may believe, because their order is not known or their writer is known to be wrong."""
    stored = chunk.record["meta_data"].get("statistics")
    if stored is None or stored.get("min_value") is None or stored.get("max_value") is None:
        return
    physical = chunk.record["meta_data"]["type"].value
    content = b"zz" if physical == _BYTE_ARRAY else b"\x7f" * len(stored["max_value"].value)

    def wrong(change: Any) -> None:
        for key in ("min_value", "max_value"):
            become(stored[key], "bytes", content)
        for key in ("min", "max"):
            remove(stored, key)
        change()

    orders = parts.footer.get("column_orders")
    if orders is not None:
        unknown = [Node("struct", [Node("struct", [], Numbered("2", 2))]) for _ in orders.value]
        yield "unknown orders", partial(wrong, partial(become, orders, "list", unknown))
        yield "too few orders", partial(wrong, partial(become, orders, "list", orders.value[:-1]))
        yield "orders of another type", partial(wrong, partial(become, orders, "int", 1))
        if physical == _BYTE_ARRAY:
            yield "no orders", partial(wrong, partial(remove, parts.footer, "column_orders"))
    if physical == _BYTE_ARRAY:
        created_by = partial(become, parts.footer["created_by"], "bytes")
        yield "an old writer", partial(wrong, partial(created_by, b"parquet-mr version 1.7.0 (build x)"))


def column_index_lies(parts: ParquetFile, chunk: Chunk) -> Iterator[Lie]:
    """Lies about the values of pages."""
    index = chunk.column_index
    if index is None:
        return
    record = chunk.record
    yield "no column index", partial(_forget, record, "column_index")
    for number in (-1, 0, 1 << 20, 1 << 62):
        yield f"column index at {number}", partial(become, record["column_index_offset"], "int", number)
    for number in (-1, 0, 1, 3, 1 << 30):
        yield f"column index of {number} bytes", partial(become, record["column_index_length"], "int", number)
    for key in ("null_pages", "min_values", "max_values", "null_counts"):
        values = index.get(key)
        if values is None:
            continue
        if values.value:
            yield f"{key} too short", partial(become, values, "list", values.value[:-1])
            yield f"{key} too long", partial(become, values, "list", [*values.value, values.value[0].copy()])
        if key != "null_counts":
            yield f"no {key}", partial(remove, index, key)
        yield f"{key} is a number", partial(become, values, "int", 5)
    if _is_flat(chunk):
        yield from _page_lies(index, _page_rows(parts, chunk), chunk)
        yield "only null pages", partial(_only_null, index)


def _page_lies(index: Node, rows: list[int], chunk: Chunk) -> Iterator[Lie]:
    counts, physical = index.get("null_counts"), chunk.record["meta_data"]["type"].value
    for page, flag in enumerate(index["null_pages"].value):
        if not flag.value:
            yield f"page {page} is null", partial(become, flag, "bool", True)
            for what, kind, value in _wrong_values(physical, text=_is_text(chunk)):
                for key in ("min_values", "max_values"):
                    yield f"{key}[{page}] is {what}", partial(become, index[key].value[page], kind, value)
            low, high = (index[key].value[page] for key in ("min_values", "max_values"))
            if low.value != high.value:
                yield f"page {page}: min above max", partial(_exchange, low, high)
        else:
            yield f"page {page} is not null", partial(become, flag, "bool", False)
        if counts is not None:
            for number in (-1, rows[page] + 1, _HUGE):
                yield f"null_counts[{page}] {number}", partial(become, counts.value[page], "int", number)
            if not flag.value:
                yield f"null_counts[{page}] all", partial(become, counts.value[page], "int", rows[page])


def _page_rows(parts: ParquetFile, chunk: Chunk) -> list[int]:
    assert chunk.offset_index is not None
    starts = [page["first_row_index"].value for page in chunk.offset_index["page_locations"].value]
    return [after - start for start, after in zip(starts, [*starts[1:], _rows(parts, chunk)], strict=True)]


def _forget(record: Node, name: str) -> None:
    remove(record, f"{name}_offset")
    remove(record, f"{name}_length")


def _exchange(one: Node, other: Node) -> None:
    one.value, other.value = other.value, one.value


def _only_null(index: Node) -> None:
    """As a writer left it that did not know its pages."""
    for flag in index["null_pages"].value:
        become(flag, "bool", True)
    for key in ("min_values", "max_values"):
        for bound in index[key].value:
            become(bound, "bytes", b"")
    if (counts := index.get("null_counts")) is not None:
        for count in counts.value:
            become(count, "int", -1)


def offset_index_lies(parts: ParquetFile, chunk: Chunk) -> Iterator[Lie]:
    """Locations that do not tile the chunk or its rows."""
    index = chunk.offset_index
    if index is None:
        return
    record, rows = chunk.record, _rows(parts, chunk)
    yield "no offset index", partial(_forget, record, "offset_index")
    for number in (-1, 0, 1 << 20, 1 << 62):
        yield f"offset index at {number}", partial(become, record["offset_index_offset"], "int", number)
    for number in (-1, 0, 1, 3, 1 << 30):
        yield f"offset index of {number} bytes", partial(become, record["offset_index_length"], "int", number)
    pages = index["page_locations"]
    yield "no locations", partial(become, pages, "list", [])
    yield "locations are a number", partial(become, pages, "int", 3)
    if len(pages.value) > 1:
        yield "one page too few", partial(become, pages, "list", pages.value[:-1])
        yield "pages in another order", partial(become, pages, "list", pages.value[::-1])
    yield "one page twice", partial(become, pages, "list", [*pages.value, pages.value[-1].copy()])
    for number, page in enumerate(pages.value):
        for key, wrong in {
            "offset": (-1, 0, 4, 1 << 20, 1 << 62),
            "compressed_page_size": (-1, 0, 1, 1 << 20, 1 << 31),
            "first_row_index": (-1, rows, rows + 1, 1 << 40),
        }.items():
            for value in wrong:
                yield f"{key}[{number}] {value}", partial(become, page[key], "int", value)
            yield f"no {key}[{number}]", partial(remove, page, key)


def row_lies(parts: ParquetFile, chunk: Chunk) -> Iterator[Lie]:
    """Rows of pages that tile, and are not the right ones: the pages show it where they are read."""
    if chunk.offset_index is None:
        return
    pages = chunk.offset_index["page_locations"].value
    for number in range(1, len(pages)):
        first = pages[number]["first_row_index"]
        for step in (-1, 1, 2):
            yield f"first_row_index[{number}] {step:+}", partial(become, first, "int", first.value + step)


def bloom_lies(parts: ParquetFile, chunk: Chunk) -> Iterator[Lie]:
    """Filters that cannot be those of the chunk."""
    bloom, meta = chunk.bloom, chunk.record["meta_data"]
    if bloom is None:
        return
    for number in (0, -32, 33, 32, 1 << 31, 1 << 62):
        if number != len(chunk.bloom_bits):
            yield f"numBytes {number}", partial(become, bloom["numBytes"], "int", number)
    for key in ("algorithm", "hash", "compression"):
        yield f"another {key}", partial(become, bloom[key], "struct", [Node("struct", [], Numbered("2", 2))])
        yield f"no {key}", partial(remove, bloom, key)
    for number in (-1, 0, 5, 1 << 20, 1 << 62):
        yield f"filter at {number}", partial(become, meta["bloom_filter_offset"], "int", number)
    if meta.get("bloom_filter_length") is not None:
        for number in (-1, 0, 5, 1 << 20, 1 << 62, 12 + 2 * len(chunk.bloom_bits)):
            yield f"filter of {number} bytes", partial(become, meta["bloom_filter_length"], "int", number)
    yield "no bits", partial(setattr, chunk, "bloom_bits", bytes(len(chunk.bloom_bits)))
