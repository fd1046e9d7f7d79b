"""Just enough of Thrift's compact protocol to read the schema at the head of a footer."""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["schema_structs", "struct_fields"]

_SCHEMA_FIELD = 2


def schema_structs(footer: bytes) -> list[dict[int, Any]]:
    """The list of `SchemaElement` structs, without decoding the row groups that follow it."""
    reader = _Reader(footer)
    field_id = 0
    while True:
        header = reader.byte()
        field_id = field_id + (header >> 4) if header >> 4 else reader.zigzag()
        value = reader.value(header & 0x0F)
        if field_id == _SCHEMA_FIELD:
            return list(value)


def struct_fields(data: bytes) -> tuple[dict[int, Any], int]:
    """The fields of the struct at the head of `data` by their numbers, and where it ends."""
    reader = _Reader(data)
    return reader.struct(), reader.at


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def varint(self) -> int:
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7

    def zigzag(self) -> int:
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        field_id = 0
        while header := self.byte():
            field_id = field_id + (header >> 4) if header >> 4 else self.zigzag()
            fields[field_id] = self.value(header & 0x0F)
        return fields

    def value(self, kind: int) -> Any:
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return self.byte()
            case 4 | 5 | 6:
                return self.zigzag()
            case 7:
                self.at += 8
                return struct.unpack_from("<d", self._data, self.at - 8)[0]
            case 8:
                length = self.varint()
                self.at += length
                return self._data[self.at - length : self.at]
            case 9 | 10:
                header = self.byte()
                count = header >> 4 if header >> 4 != 15 else self.varint()
                return [self.value(header & 0x0F) for _ in range(count)]
            case 12:
                return self.struct()
        raise ValueError(f"type {kind} is not one of Thrift's")
