"""parquet-mr, the library for Java by which Spark, Hive, Trino's older versions and Iceberg itself write Parquet."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyiceberg.types import DecimalType, FixedType, IntegerType, LongType, TimestamptzType

from support.corpus.content import Content, Stored
from support.corpus.java import double_bits, encoded_bytes, float_bits, java
from support.corpus.settings import Choices, Settings
from support.corpus.values import (
    BINARY,
    BOOLEAN,
    DATE,
    DAY,
    DOUBLE,
    FIRST_DAY,
    FLOAT,
    INT,
    LAST_DAY,
    LIST,
    LISTS,
    LONG,
    MAP,
    NESTED,
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
    integers,
    moments,
    steps,
)
from support.corpus.writer import Writer

__all__ = ["PARQUET_MR"]

_JULIAN_DAY_OF_1970 = 2_440_588

_CHOICES: Choices = {
    "codec": ["UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4_RAW", "LZ4"],
    "version": ["PARQUET_1_0", "PARQUET_2_0"],
    "row_group_rows": [50, 1000, 173],
    "page_rows": [7, 1000, 40],
    "page_bytes": [1 << 20, 200],
    "dictionary": [True, False, True],
    "dictionary_bytes": [1 << 20, 64],
    "byte_stream_split": [False, True],
    "bloom": [False, True],
    "adaptive_bloom": [True, False],
    "checksums": [False, True],
    "statistics": [True, True, False],
    "size_statistics": [True, False],
    "truncate": [64, 3],
}


def _text(value: str) -> str:
    return encoded_bytes(value.encode())


def _int96(micros: int) -> str:
    days, rest = divmod(micros, DAY)
    return encoded_bytes(struct.pack("<qi", rest * 1000, days + _JULIAN_DAY_OF_1970))


def _unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def _decimal_bytes(length: int | None) -> Callable[[Decimal], str]:
    """Two's complement, the highest byte first, in so many bytes or in as few as will do."""

    def encode(value: Decimal) -> str:
        number = _unscaled(value)
        width = length or (number.bit_length() + 8) // 8
        return encoded_bytes(number.to_bytes(width, "big", signed=True))

    return encode


def _divided(by: int) -> Callable[[int], int]:
    return lambda value: value // by


def _wrapped(bits: int) -> Callable[[Any], int]:
    """An unsigned number as Java holds it."""
    return lambda value: int(value) - (1 << bits) if int(value) >= 1 << (bits - 1) else int(value)


def _half(number: float) -> str:
    return encoded_bytes(struct.pack("<e", number))


def _three_levels(encode: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    """A list as groups: the list holds repeated groups, each of which holds an element."""
    return lambda values: [[[None if value is None else encode(value)] for value in values]]


def _present(domain: Domain) -> Domain:
    """The lists of a domain without null elements, as layouts with repeated elements need."""
    return Domain(
        domain.type,
        [[]],
        lambda random, reach: [value for value in domain.draw(random, reach) if value is not None],
        key=repr,
    )


def _struct(value: dict[int, Any]) -> list[Any]:
    inside = value[103]
    return [
        value[101],
        None if value[102] is None else _text(value[102]),
        None if inside is None else [None if inside[104] is None else double_bits(inside[104])],
    ]


def _map(encode_key: Callable[[Any], Any], encode: Callable[[Any], Any]) -> Callable[[list[tuple[Any, Any]]], Any]:
    return lambda pairs: [[[encode_key(key), None if value is None else encode(value)] for key, value in pairs]]


def _nested(values: list[Any]) -> Any:
    inner = _map(int, _three_levels(lambda x: [None if x[136] is None else _text(x[136])]))
    return _three_levels(lambda y: [None if y[132] is None else inner(y[132]), y[137]])(values)


def _column(
    name: str, domain: Domain, physical: str, annotation: str = "", encode: Callable[[Any], Any] = lambda value: value
) -> list[Stored]:
    """The column as optional and as required."""
    note = f" ({annotation})" if annotation else ""
    native = f"{physical} {{}}{note};"
    return [
        Stored(name, domain, "optional " + native, encode),
        Stored(f"{name}_required", domain, "required " + native, encode, required=True),
    ]


_HALF = Domain(FLOAT.type, [0.0, -0.0, 1.0, -1.5, float("nan"), float("inf"), 65504.0, 2.0**-24],
               lambda random, _: random.randint(-2048, 2048) / 8, key=FLOAT.key)  # fmt: skip
_FAR = moments(TimestamptzType(), FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1)

_COLUMNS = [
    *_column("boolean", BOOLEAN, "boolean"),
    *_column("int32", INT, "int32"),
    *_column("int8", integers(IntegerType(), -128, 127), "int32", "INTEGER(8,true)"),
    *_column("uint16", integers(IntegerType(), 0, 65_535), "int32", "INTEGER(16,false)"),
    *_column("uint32", integers(LongType(), 0, 2**32 - 1), "int32", "INTEGER(32,false)", _wrapped(32)),
    *_column("int64", LONG, "int64"),
    *_column("uint64", Domain(DecimalType(20, 0), [Decimal(n) for n in (0, 1, 2**63 - 1, 2**63, 2**64 - 1)],
             lambda random, reach: Decimal(random.getrandbits(1 + int(63 * reach)))), "int64", "INTEGER(64,false)",
             _wrapped(64)),
    *_column("float", FLOAT, "float", encode=float_bits),
    *_column("double", DOUBLE, "double", encode=double_bits),
    *_column("half", _HALF, "fixed_len_byte_array(2)", "FLOAT16", _half),
    *_column("date", DATE, "int32", "DATE"),
    *_column("time_millis", steps(TIME, 1000), "int32", "TIME(MILLIS,true)", _divided(1000)),
    *_column("time_micros", TIME, "int64", "TIME(MICROS,true)"),
    *_column("time_nanos", integers(LongType(), 0, DAY * 1000 - 1), "int64", "TIME(NANOS,true)"),
    *_column("ts_millis", steps(TIMESTAMP, 1000), "int64", "TIMESTAMP(MILLIS,false)", _divided(1000)),
    *_column("ts_micros", TIMESTAMP, "int64", "TIMESTAMP(MICROS,false)"),
    *_column("ts_nanos", TIMESTAMP_NANO, "int64", "TIMESTAMP(NANOS,false)"),
    *_column("tz_millis", steps(TIMESTAMPTZ, 1000), "int64", "TIMESTAMP(MILLIS,true)", _divided(1000)),
    *_column("tz_micros", TIMESTAMPTZ, "int64", "TIMESTAMP(MICROS,true)"),
    *_column("tz_nanos", TIMESTAMPTZ_NANO, "int64", "TIMESTAMP(NANOS,true)"),
    *_column("int96", _FAR, "int96", encode=_int96),
    *_column("text", STRING, "binary", "STRING", _text),
    *_column("enum", STRING, "binary", "ENUM", _text),
    *_column("json", STRING, "binary", "JSON", _text),
    *_column("bytes", BINARY, "binary", encode=encoded_bytes),
    *_column("bson", BINARY, "binary", "BSON", encoded_bytes),
    *_column("fixed", fixed(5), "fixed_len_byte_array(5)", encode=encoded_bytes),
    *_column("uuid", UUID, "fixed_len_byte_array(16)", "UUID", encoded_bytes),
    *_column("interval", Domain(FixedType(12), fixed(12).edges, fixed(12).draw), "fixed_len_byte_array(12)",
             "INTERVAL", encoded_bytes),
    *_column("dec_int32", decimals(9, 2), "int32", "DECIMAL(9,2)", _unscaled),
    *_column("dec_int64", decimals(18, 4), "int64", "DECIMAL(18,4)", _unscaled),
    *_column("dec_fixed", decimals(22, 7), "fixed_len_byte_array(10)", "DECIMAL(22,7)", _decimal_bytes(10)),
    *_column("dec_wide", decimals(38, 10), "fixed_len_byte_array(16)", "DECIMAL(38,10)", _decimal_bytes(16)),
    *_column("dec_binary", decimals(12, 3), "binary", "DECIMAL(12,3)", _decimal_bytes(None)),
    Stored("struct", STRUCT, "optional group {} {{ optional int64 n; optional binary s (STRING); "
           "optional group in {{ optional double d; }} }}", _struct),
    Stored("list", LIST, "optional group {} (LIST) {{ repeated group list {{ optional int32 element; }} }}",
           _three_levels(int)),
    Stored("list_bag", LIST, "optional group {} (LIST) {{ repeated group bag {{ optional int32 array_element; }} }}",
           _three_levels(int)),
    Stored("list_array", _present(LIST), "optional group {} (LIST) {{ repeated int32 array; }}",
           lambda values: [values]),
    Stored("repeated", _present(LIST), "repeated int32 {};", required=True),
    Stored("lists", LISTS, "optional group {} (LIST) {{ repeated group list {{ optional group element (LIST) "
           "{{ repeated group list {{ optional binary element (STRING); }} }} }} }}",
           _three_levels(_three_levels(_text))),
    Stored("map", MAP, "optional group {} (MAP) {{ repeated group key_value {{ required binary key (STRING); "
           "optional int64 value; }} }}", _map(_text, int)),
    Stored("old_map", MAP, "optional group {} (MAP_KEY_VALUE) {{ repeated group map {{ required binary key (UTF8); "
           "optional int64 value; }} }}", _map(_text, int)),
    Stored("nested", NESTED, "optional group {} (LIST) {{ repeated group list {{ optional group element {{ optional "
           "group m (MAP) {{ repeated group key_value {{ required int32 key; optional group value (LIST) {{ repeated "
           "group list {{ optional group element {{ optional binary x (STRING); }} }} }} }} }} optional int32 y; }} "
           "}} }}", _nested),
]  # fmt: skip


def _write(path: Path, content: Content, settings: Settings) -> None:
    fields = " ".join(column.native.format(column.name) for column in content.columns)
    rows = list(zip(*content.encoded(), strict=True))
    java().ask(do="parquet", path=str(path), schema=f"message rows {{ {fields} }}", rows=rows, settings=dict(settings))


PARQUET_MR = Writer("parquet-mr", "parquet", _CHOICES, lambda _: _COLUMNS, _write)
