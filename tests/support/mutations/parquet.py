"""Parquet files with one changed page header. No checksum covers these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from formatkit.formats.parquet.thrift import Field, decode_struct, encode, i32, nested

__all__ = ["Mutant", "Page", "changed", "claiming", "counts", "mutants", "pages"]

_FIELDS = {
    0: (5, {"num_values": 1, "encoding": 2, "definition_level_encoding": 3}),
    2: (7, {"num_values": 1, "encoding": 2}),
    3: (
        8,
        {
            "num_values": 1,
            "num_nulls": 2,
            "num_rows": 3,
            "encoding": 4,
            "definition_levels_byte_length": 5,
            "repetition_levels_byte_length": 6,
        },
    ),
}
"""By type of page: the field of the header that describes it, and names of fields in that."""


@dataclass(frozen=True)
class Page:
    """A page: which column chunk it belongs to, where its header is, and what that says."""

    column: str
    start: int
    content: int
    end: int
    header: dict[int, Any]


@dataclass(frozen=True)
class Mutant:
    """A file, and what was done to it."""

    what: str
    data: bytes


def pages(data: bytes) -> list[Page]:
    """All pages of a file."""
    metadata, found = pq.read_metadata(pa.BufferReader(data)), []
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            at = chunk.dictionary_page_offset or chunk.data_page_offset
            end = at + chunk.total_compressed_size
            while at < end:
                header, content = decode_struct(data, at)
                found.append(Page(f"{group}.{chunk.path_in_schema}", at, content, content + header[3], header))
                at = content + header[3]
    return found


def counts(data: bytes) -> Iterator[Mutant]:
    """Each number of each page's header, up to 8 off, where it still takes as many bytes."""
    for page in pages(data):
        struct, names = _FIELDS[page.header[1]]
        fields: list[tuple[str, Any, tuple[int, ...]]]
        fields = [(f"{name} of", page.header[struct][number], (struct, number)) for name, number in names.items()]
        fields += [("uncompressed size of", page.header[2], (2,)), ("compressed size of", page.header[3], (3,))]
        for name, value, path in fields:
            for step in (*range(-8, 0), *range(1, 9)):
                mutant = changed(data, page, path, value + step)
                if mutant is not None:
                    yield Mutant(f"{name} the page at {page.start} of {page.column} {step:+}", mutant)


def mutants(data: bytes, random: Random, count: int) -> Iterator[Mutant]:
    """Random bytes of random headers changed to others, or one of their bits flipped."""
    all_pages = pages(data)
    for _ in range(count):
        page = random.choice(all_pages)
        place = random.randrange(page.start, page.content)
        byte = random.choice((random.randrange(256), data[place] ^ (1 << random.randrange(8))))
        mutant = data[:place] + bytes([byte]) + data[place + 1 :]
        yield Mutant(f"byte {place - page.start} of the header at {page.start} of {page.column} is {byte}", mutant)


def changed(data: bytes, page: Page, path: tuple[int, ...], value: int) -> bytes | None:
    """A copy with another number in a header that stays as long as it is."""
    place, old = _place(data, page.start, path)
    new = _varint(value << 1 if value >= 0 else (-value << 1) - 1, old)
    return None if new is None else data[:place] + new + data[place + old :]


def _varint(value: int, length: int) -> bytes | None:
    encoded = bytes((value >> 7 * number & 0x7F) | (0x80 if number < length - 1 else 0) for number in range(length))
    return encoded if value < 1 << 7 * length else None


def _place(data: bytes, at: int, path: tuple[int, ...]) -> tuple[int, int]:
    """Where a number stands in a struct of Thrift's compact protocol, and how many bytes it has."""
    number = 0
    while head := data[at]:
        number, at = number + (head >> 4), at + 1
        kind, start = head & 15, at
        if kind == 12 and number == path[0]:
            return _place(data, at, path[1:])
        if kind in (4, 5, 6):
            while data[at] & 0x80:
                at += 1
            at += 1
        elif kind == 8:
            length, after = data[at] & 0x7F, at + 1
            if data[at] & 0x80:
                length, after = length | data[after] << 7, after + 1
            at = after + length
        elif kind == 12:
            _, at = decode_struct(data, at)
        if number == path[0]:
            return start, at - start
    raise LookupError(path)


def claiming(data: bytes, page: Page, claims: dict[tuple[int, ...], int]) -> bytes:
    """A copy whose header of a page has other numbers, however large, by their fields.

    The header keeps its length: it loses checksum and statistics, and its size gets bytes that add nothing.
    """
    struct, length = _FIELDS[page.header[1]][0], page.content - page.start
    outer = {number: page.header[number] for number in range(1, 4)}
    inner = {number: value for number, value in page.header[struct].items() if not isinstance(value, dict)}
    for path, value in claims.items():
        (outer if len(path) == 1 else inner)[path[-1]] = value
    described = nested(struct, *(_flag(*item) if isinstance(item[1], bool) else i32(*item) for item in inner.items()))
    for padding in range(length):
        fields = [_padded(number, value, padding if number == 3 else 0) for number, value in outer.items()]
        header = encode(*fields, described)
        if len(header) == length:
            return data[: page.start] + header + data[page.content :]
    raise LookupError("the header is too short")


def _flag(number: int, value: bool) -> Field:
    return Field(number, 1 if value else 2, b"")


def _padded(number: int, value: int, padding: int) -> Field:
    field = i32(number, value)
    if not padding:
        return field
    last = field.value[-1] | 0x80
    return field._replace(value=field.value[:-1] + bytes([last]) + b"\x80" * (padding - 1) + b"\0")
