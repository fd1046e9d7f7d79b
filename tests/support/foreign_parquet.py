"""Parquet files as other writers leave them: real pages of pyarrow under a schema that pyarrow would not write.

Layouts with the same repetition and definition levels have the same pages, so that only the schema in the footer must
be exchanged.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
UTF8, MAP, MAP_KEY_VALUE, LIST, ENUM, DECIMAL, DATE, TIME_MILLIS, TIME_MICROS = range(9)
TIMESTAMP_MILLIS, TIMESTAMP_MICROS, UINT_8, UINT_16, UINT_32, UINT_64, INT_8, INT_16, INT_32, INT_64 = range(9, 19)
JSON, BSON, INTERVAL = 19, 20, 21

Node = dict[int, Any]


class Byte(int):
    """A number that Thrift stores in one byte."""


def leaf(
    name: str,
    physical: int,
    repetition: int = OPTIONAL,
    *,
    converted: int | None = None,
    logical: Node | None = None,
    length: int | None = None,
    scale: int | None = None,
    precision: int | None = None,
    field_id: int | None = None,
) -> list[Node]:
    """One `SchemaElement`; `logical` is the union `LogicalType` by field numbers."""
    fields: Node = {
        1: physical, 2: length, 3: repetition, 4: name, 6: converted, 7: scale, 8: precision, 9: field_id,
        10: logical,
    }  # fmt: skip
    return [{key: value for key, value in fields.items() if value is not None}]


def group(
    name: str,
    *children: list[Node],
    repetition: int = OPTIONAL,
    converted: int | None = None,
    logical: Node | None = None,
    field_id: int | None = None,
) -> list[Node]:
    fields: Node = {
        3: repetition, 4: name, 5: len(children), 6: converted, 9: field_id,
        10: logical,
    }  # fmt: skip
    own = {key: value for key, value in fields.items() if value is not None}
    return [own, *(node for child in children for node in child)]


def parquet_bytes(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def with_schema(data: bytes, *columns: list[Node]) -> bytes:
    """The same file under another schema."""
    (length,) = struct.unpack("<I", data[-8:-4])
    footer = data[-8 - length : -8]
    start, end = _schema_span(footer)
    root = {4: "schema", 5: len(columns)}
    changed = footer[:start] + _encode_list([root, *(node for column in columns for node in column)]) + footer[end:]
    return data[: -8 - length] + changed + struct.pack("<I", len(changed)) + data[-4:]


def _schema_span(footer: bytes) -> tuple[int, int]:
    """Where the schema is: after the version, a list of structs."""
    skipper = _Skipper(footer)
    skipper.at = 1
    skipper.varint()
    assert footer[skipper.at] == 0x19
    start = skipper.at + 1
    skipper.at = start
    skipper.skip(9)
    return start, skipper.at


def _encode_list(structs: list[Node]) -> bytes:
    return bytes([0xFC]) + _varint(len(structs)) + b"".join(_encode_struct(fields) for fields in structs)


def _encode_struct(fields: Node) -> bytes:
    out = b""
    previous = 0
    for number, value in sorted(fields.items()):
        kind, body = _encode_value(value)
        step = number - previous
        out += (bytes([step << 4 | kind]) if step < 16 else bytes([kind]) + _varint(number << 1)) + body
        previous = number
    return out + b"\x00"


def _encode_value(value: Any) -> tuple[int, bytes]:
    match value:
        case Byte():
            return 3, value.to_bytes(1, "little", signed=True)
        case bool():
            return (1 if value else 2), b""
        case int():
            return 5, _varint(value << 1 if value >= 0 else (-value << 1) - 1)
        case str():
            return 8, _varint(len(value.encode())) + value.encode()
        case _:
            return 12, _encode_struct(value)


def _varint(value: int) -> bytes:
    def groups() -> Iterator[int]:
        rest = value
        while rest > 0x7F:
            yield rest & 0x7F | 0x80
            rest >>= 7
        yield rest

    return bytes(groups())


class _Skipper:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip(self, kind: int) -> None:
        match kind:
            case 3:
                self.at += 1
            case 4 | 5 | 6:
                self.varint()
            case 7:
                self.at += 8
            case 8:
                length = self.varint()
                self.at += length
            case 9:
                header = self.data[self.at]
                self.at += 1
                for _ in range(header >> 4 if header >> 4 != 15 else self.varint()):
                    self.skip(header & 0x0F)
            case 12:
                while header := self.data[self.at]:
                    self.at += 1
                    if not header >> 4:
                        self.varint()
                    self.skip(header & 0x0F)
                self.at += 1
