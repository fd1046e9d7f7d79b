"""Avro by its library for Java, and by fastavro."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro

from support.corpus.content import Content, Stored, same
from support.corpus.java import double_bits, encoded_bytes, float_bits, java
from support.corpus.settings import Choices, Settings
from support.corpus.values import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LIST,
    LISTS,
    LONG,
    MAP,
    STRING,
    STRUCT,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NANO,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NANO,
    UUID,
    Domain,
    decimals,
    fixed,
    steps,
)
from support.corpus.writer import Writer

__all__ = ["AVRO_JAVA", "FASTAVRO"]

Encode = Callable[[Any], Any]
_SYMBOLS = ["A", "B", "long_symbol", "Z9"]
_ENUM = Domain(STRING.type, _SYMBOLS, lambda random, _: random.choice(_SYMBOLS), key=str.encode)


def _logical(base: str, name: str) -> dict[str, Any]:
    return {"type": base, "logicalType": name}


def _decimal_type(base: dict[str, Any], precision: int, scale: int) -> dict[str, Any]:
    return {**base, "logicalType": "decimal", "precision": precision, "scale": scale}


def _fixed_type(name: str, size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


def _decimal_bytes(size: int | None, scale: int) -> Callable[[Decimal], bytes]:
    def encode(value: Decimal) -> bytes:
        sign, digits, _ = value.as_tuple()
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        return number.to_bytes(size or (number.bit_length() + 8) // 8, "big", signed=True)

    return encode


def _divided(by: int) -> Encode:
    return lambda value: value // by


def _option(encode: Encode) -> Encode:
    return lambda value: None if value is None else encode(value)


def _columns(octets: Encode, single: Encode, double: Encode, record: Encode, pairs: Encode) -> list[Stored]:
    """The columns, given how a writer takes bytes, floats, records (a dict by name) and maps (pairs).

    Unions have null first or second; the name of the column says which. Others are required.
    """
    inner = {"type": "record", "name": "inner", "fields": [{"name": "d", "type": ["null", "double"], "default": None}]}
    struct = {
        "type": "record",
        "name": "pair",
        "fields": [
            {"name": "n", "type": ["null", "long"], "default": None},
            {"name": "s", "type": ["string", "null"], "default": "x"},
            {"name": "in", "type": ["null", inner]},
        ],
    }

    def struct_value(value: dict[int, Any]) -> Any:
        inside = value[103]
        deep = None if inside is None else record({"d": _option(double)(inside[104])})
        return record({"n": value[101], "s": value[102], "in": deep})

    flat: list[tuple[str, Domain, Any, Encode]] = [
        ("boolean", BOOLEAN, "boolean", same),
        ("int", INT, "int", same),
        ("long", LONG, "long", same),
        ("float", FLOAT, "float", single),
        ("double", DOUBLE, "double", double),
        ("string", STRING, "string", same),
        ("bytes", BINARY, "bytes", octets),
        ("fixed", fixed(7), _fixed_type("seven", 7), octets),
        ("enum", _ENUM, {"type": "enum", "name": "letters", "symbols": _SYMBOLS}, same),
        ("date", DATE, _logical("int", "date"), same),
        ("time_millis", steps(TIME, 1000), _logical("int", "time-millis"), _divided(1000)),
        ("time_micros", TIME, _logical("long", "time-micros"), same),
        ("tz_millis", steps(TIMESTAMPTZ, 1000), _logical("long", "timestamp-millis"), _divided(1000)),
        ("tz_micros", TIMESTAMPTZ, _logical("long", "timestamp-micros"), same),
        ("tz_nanos", TIMESTAMPTZ_NANO, _logical("long", "timestamp-nanos"), same),
        ("ts_millis", steps(TIMESTAMP, 1000), _logical("long", "local-timestamp-millis"), _divided(1000)),
        ("ts_micros", TIMESTAMP, _logical("long", "local-timestamp-micros"), same),
        ("ts_nanos", TIMESTAMP_NANO, _logical("long", "local-timestamp-nanos"), same),
        ("dec_bytes", decimals(12, 3), _decimal_type({"type": "bytes"}, 12, 3),
         lambda value: octets(_decimal_bytes(None, 3)(value))),
        ("dec_fixed", decimals(38, 10), _decimal_type(_fixed_type("wide", 16), 38, 10),
         lambda value: octets(_decimal_bytes(16, 10)(value))),
        ("uuid_text", UUID, _logical("string", "uuid"), lambda value: str(uuid.UUID(bytes=value))),
        ("uuid_fixed", UUID, {**_fixed_type("id", 16), "logicalType": "uuid"}, octets),
        ("unknown", LONG, _logical("long", "age-in-millis"), same),
        ("unsuitable", STRING, _logical("string", "date"), same),
        ("struct", STRUCT, struct, struct_value),
        ("list", LIST, {"type": "array", "items": ["null", "int"]}, same),
        ("lists", LISTS, {"type": "array", "items": ["null", {"type": "array", "items": ["null", "string"]}]}, same),
        ("map", MAP, {"type": "map", "values": ["null", "long"]}, pairs),
    ]  # fmt: skip
    nested = ("struct", "list", "lists", "map")
    columns = []
    for number, (name, domain, native, encode) in enumerate(flat):
        union = ["null", native] if number % 2 else [native, "null"]
        columns.append(Stored(name, domain, union, encode))
        # A name may be defined once in a schema.
        if isinstance(native, str) or ("name" not in native and name not in nested):
            columns.append(Stored(f"{name}_required", domain, native, encode, required=True))
    return columns


def _schema(content: Content) -> dict[str, Any]:
    fields = []
    for column in content.columns:
        default = {"default": None} if isinstance(column.native, list) and column.native[0] == "null" else {}
        fields.append({"name": column.name, "type": column.native, **default})
    return {"type": "record", "name": "rows", "namespace": "of.others", "fields": fields}


_JAVA_COLUMNS = _columns(encoded_bytes, float_bits, double_bits, lambda fields: list(fields.values()), same)
_JAVA_CHOICES: Choices = {
    "codec": ["null", "deflate", "snappy", "bzip2", "xz", "zstandard"],
    "sync_interval": [64_000, 32, 1000],
    "block_rows": [1 << 30, 1, 50],
}


def _write_by_java(path: Path, content: Content, settings: Settings) -> None:
    rows = list(zip(*content.encoded(), strict=True))
    java().ask(do="avro", path=str(path), schema=json.dumps(_schema(content)), rows=rows, **settings)


AVRO_JAVA = Writer("Avro for Java", "avro", _JAVA_CHOICES, lambda _: _JAVA_COLUMNS, _write_by_java)

_FAST_COLUMNS = _columns(same, same, same, same, dict)
_FAST_CHOICES: Choices = {
    "codec": ["null", "deflate", "snappy", "bzip2", "xz"],
    "sync_interval": [16_000, 1, 1000],
    "codec_compression_level": [None, 1],
}


def _write_by_fastavro(path: Path, content: Content, settings: Settings) -> None:
    names = [column.name for column in content.columns]
    rows = (dict(zip(names, row, strict=True)) for row in zip(*content.encoded(), strict=True))
    level = settings["codec_compression_level"] if settings["codec"] in ("deflate", "bzip2") else None
    # Values are in stored form already; the file still says what they are.
    schema = fastavro.parse_schema(_schema(content))
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, settings["codec"], settings["sync_interval"], codec_compression_level=level)


FASTAVRO = Writer("fastavro", "avro", _FAST_CHOICES, lambda _: _FAST_COLUMNS, _write_by_fastavro)
