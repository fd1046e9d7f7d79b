"""Parquet files taken apart: pages, indexes, bloom filters and the footer, put together again with right offsets.

What an edit did not touch is made to fit: offsets, sizes and checksums of pages, so that a reader gets as far as the
edit.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from random import Random
from typing import Any

from support.mutations import thrift
from support.mutations.tree import Edit, Node, edit

__all__ = ["ParquetFile"]

_MAGIC = b"PAR1"
_DATA_PAGES = (0, 3)


@dataclass
class Page:
    """A page: its header, and the bytes behind it as they are stored."""

    header: Node
    body: bytes

    @property
    def holds_data(self) -> bool:
        kind = self.header.get("type") if self.header.kind == "struct" else None
        return kind is not None and kind.value in _DATA_PAGES


@dataclass
class Chunk:
    """A column chunk and what belongs to it elsewhere in the file."""

    record: Node
    pages: list[Page] = field(default_factory=list)
    column_index: Node | None = None
    offset_index: Node | None = None
    bloom: Node | None = None
    bloom_bits: bytes = b""


class ParquetFile:
    """The parts of a file."""

    def __init__(self, data: bytes) -> None:
        length = int.from_bytes(data[-8:-4], "little")
        self.footer, _ = thrift.parse(data, len(data) - 8 - length, "FileMetaData")
        self.chunks = [
            _chunk(data, record) for group in self.footer["row_groups"].value for record in group["columns"].value
        ]

    def edit(self, random: Random) -> tuple[str, Edit]:
        """Change one place; returns the structure it is in."""
        number = random.randrange(len(self.chunks))
        chunk = self.chunks[number]
        indexes = {"column_index": chunk.column_index, "offset_index": chunk.offset_index, "bloom": chunk.bloom}
        present = [name for name, node in indexes.items() if node is not None]
        choice = random.choice(["footer", "footer", "page_header", "page_header", "page_body", *present])
        if choice == "footer":
            return choice, edit(self.footer, random)
        if choice in ("page_header", "page_body"):
            place = random.randrange(len(chunk.pages))
            page = chunk.pages[place]
            where = f"chunks[{number}].pages[{place}]"
            if choice == "page_header":
                done = edit(page.header, random)
                return choice, Edit(f"{where}.header{done.path}", done.what)
            body = Node("raw", page.body)
            done = edit(body, random)
            page.body = body.value if isinstance(body.value, bytes) else page.body[:-1]
            return choice, Edit(f"{where}.body", done.what)
        node = indexes[choice]
        assert node is not None
        done = edit(node, random)
        return choice, Edit(f"chunks[{number}].{choice}{done.path}", done.what)

    def to_bytes(self) -> bytes:
        output = bytearray(_MAGIC)
        for chunk in self.chunks:
            _write_pages(chunk, output)
        for chunk in self.chunks:
            for name in ("column_index", "offset_index"):
                node = getattr(chunk, name)
                if node is not None:
                    content = thrift.encode(node)
                    _set(chunk.record, f"{name}_offset", len(output))
                    _set(chunk.record, f"{name}_length", len(content))
                    output += content
            if chunk.bloom is not None:
                _set(_child(chunk.record, "meta_data"), "bloom_filter_offset", len(output))
                content = thrift.encode(chunk.bloom) + chunk.bloom_bits
                _set(_child(chunk.record, "meta_data"), "bloom_filter_length", len(content))
                output += content
        footer = thrift.encode(self.footer)
        return bytes(output) + footer + len(footer).to_bytes(4, "little") + _MAGIC


def _chunk(data: bytes, record: Node) -> Chunk:
    chunk = Chunk(record)
    column = record["meta_data"]
    first = column.get("dictionary_page_offset")
    at = min(column["data_page_offset"].value, first.value if first else 1 << 62)
    end = at + column["total_compressed_size"].value
    while at < end:
        header, at = thrift.parse(data, at, "PageHeader")
        size = header["compressed_page_size"].value
        chunk.pages.append(Page(header, data[at : at + size]))
        at += size
    for name, struct in (("column_index", "ColumnIndex"), ("offset_index", "OffsetIndex")):
        place = record.get(f"{name}_offset")
        if place is not None:
            setattr(chunk, name, thrift.parse(data, place.value, struct)[0])
    place = column.get("bloom_filter_offset")
    if place is not None:
        chunk.bloom, at = thrift.parse(data, place.value, "BloomFilterHeader")
        chunk.bloom_bits = data[at : at + chunk.bloom["numBytes"].value]
    return chunk


def _write_pages(chunk: Chunk, output: bytearray) -> None:
    start = len(output)
    column = _child(chunk.record, "meta_data")
    locations = _child(chunk.offset_index, "page_locations")
    data_pages = 0
    for page in chunk.pages:
        at = len(output)
        _set(page.header, "compressed_page_size", len(page.body))
        crc = zlib.crc32(page.body)
        _set(page.header, "crc", crc - (1 << 32) if crc >= 1 << 31 else crc)
        output += thrift.encode(page.header) + page.body
        if not page.holds_data:
            _set(column, "dictionary_page_offset", at)
            continue
        if not data_pages:
            _set(column, "data_page_offset", at)
        if locations is not None and locations.kind == "list" and data_pages < len(locations.value):
            _set(locations.value[data_pages], "offset", at)
            _set(locations.value[data_pages], "compressed_page_size", len(output) - at)
        data_pages += 1
    _set(column, "total_compressed_size", len(output) - start)


def _child(node: Node | None, key: str) -> Node | None:
    return node.get(key) if node is not None and node.kind == "struct" else None


def _set(node: Node | None, key: str, value: Any) -> None:
    """Set a number, unless the edit was made there."""
    child = _child(node, key)
    if child is not None and child.kind == "int" and not child.edited:
        child.value = value
