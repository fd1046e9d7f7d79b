"""ORC by its libraries for Java and C++: the latter through pyorc, and through pyarrow in `arrow_writers`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyorc
from pyiceberg.types import IntegerType, TimestampType, TimestamptzType

from support.corpus.content import Content, Stored, same
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
    YEAR,
    Domain,
    decimals,
    integers,
    lists_of_unions,
    moments,
    unions,
)
from support.corpus.writer import Writer

__all__ = ["ORC_JAVA", "PYORC"]

# Days of 1582, when calendars changed, and of 1900, before which Java's and C++'s tables of time zones differ.
_GREGORIAN, _TABLES = -141_427, -25_567 + 366


def _storable(domain: Domain) -> Domain:
    """Moments without those of the last second before 1970, for which Java has no form."""

    def later(micros: int) -> int:
        return micros if not -1_000_000 < micros < 0 else micros - 1_000_000

    return Domain(
        domain.type, sorted({later(edge) for edge in domain.edges}), lambda r, reach: later(domain.draw(r, reach))
    )


_TIMESTAMP = _storable(moments(TimestampType(), _GREGORIAN * DAY, (LAST_DAY + 1) * DAY - 1))
_TIMESTAMPTZ = _storable(moments(TimestamptzType(), _GREGORIAN * DAY, (LAST_DAY + 1) * DAY - 1))
# Zones without daylight saving at these moments, or far from its gaps: each is shown by a clock exactly once.
_ZONED = Domain(
    TimestampType(),
    sorted({day * DAY + rest for day in (_TABLES, -1, 0, 1, 365, 16_436, 20_000, 36_500, 146_000) for rest in
            (43_200_000_000, 43_200_123_456, 50_000_999_999)}),
    lambda random, reach: random.randint(_TABLES, _TABLES + 1 + int(150_000 * reach)) * DAY
    + random.randint(12 * 3_600_000_000, 20 * 3_600_000_000),
)  # fmt: skip
_PLAIN_DATES = integers(DATE.type, _GREGORIAN, LAST_DAY, -1, 18_262, -25_567)

_JAVA_CHOICES: Choices = {
    "codec": ["NONE", "ZLIB", "SNAPPY", "LZO", "LZ4", "ZSTD"],
    "version": ["0.12", "0.11", "0.12", "UNSTABLE-PRE-2.0"],
    "row_index": ["1000", "0", "10000"],
    "stripe_rows": ["1000000", "100", "37"],
    "buffer": ["262144", "1024"],
    "strategy": ["SPEED", "COMPRESSION"],
    "dictionary": ["0", "1", "0.8"],
    "dictionary_impl": ["rbtree", "hash"],
    "bloom": [False, True],
    "bloom_version": ["utf8", "original"],
    "direct": [False, True],
    "decimal_64": [False, True],
    "zone": ["UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Europe/Amsterdam", "Pacific/Apia"],
    "utc": [True, False],
    "proleptic": [True, False],
    "row": [None, None, None, None, None, "bigint", "union"],
    "writer_version": [None, "ORIGINAL", "HIVE_8732", "HIVE_4243", "ORC_101", "ORC_135", "ORC_517"],
}


def _json_text(value: str) -> str:
    return encoded_bytes(value.encode())


def _optional(encode: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else encode(value)


def _list_of(encode: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [_optional(encode, value) for value in values]


def _pairs_of(encode_key: Callable[[Any], Any], encode: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda pairs: [(encode_key(key), _optional(encode, value)) for key, value in pairs]


def _struct_of(text: Callable[[str], Any], number: Callable[[float], Any]) -> Callable[[dict[int, Any]], Any]:
    def encode(value: dict[int, Any]) -> Any:
        inside = value[103]
        inner = None if inside is None else (_optional(number, inside[104]),)
        return value[101], _optional(text, value[102]), inner

    return encode


def _nested_of(text: Callable[[str], Any], as_map: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    inner = _pairs_of(same, _list_of(lambda value: (_optional(text, value[136]),)))
    return _list_of(lambda value: (None if value[132] is None else as_map(inner(value[132])), value[137]))


def _union_in(tagged: Callable[[int, Any], Any], *branches: Callable[[Any], Any]) -> Callable[[dict[int, Any]], Any]:
    """How unions are encoded, given how a tag and a value are joined."""

    def encode(value: dict[int, Any]) -> Any:
        tag, *stored = value.values()
        return tagged(tag, _optional(branches[tag], stored[tag]))

    return encode


def _columns(
    text: Callable[[str], Any],
    octets: Callable[[bytes], Any],
    single: Callable[[float], Any],
    double: Callable[[float], Any],
    decimal: Callable[[Decimal], Any],
    as_map: Callable[[list[Any]], Any],
    tagged: Callable[[int, Any], Any],
    *,
    null_branches: bool,
) -> list[Stored]:
    """What Java and pyorc store alike, but for the form of values, and for null branches of unions."""
    union = _union_in(tagged, same, text, lambda value: (_optional(double, value[150]),), _list_of(same))
    inner = _union_in(tagged, same, text)
    outer = _union_in(tagged, same, lambda pairs: as_map(_pairs_of(text, inner)(pairs)))
    return [
        Stored("boolean", BOOLEAN, "boolean"),
        Stored("tinyint", integers(IntegerType(), -128, 127), "tinyint"),
        Stored("smallint", integers(IntegerType(), -(2**15), 2**15 - 1), "smallint"),
        Stored("int", INT, "int"),
        Stored("bigint", LONG, "bigint"),
        Stored("float", FLOAT, "float", single),
        Stored("double", DOUBLE, "double", double),
        Stored("string", STRING, "string", text),
        Stored("varchar", STRING, "varchar(5000)", text),
        Stored("binary", BINARY, "binary", octets),
        Stored("dec_short", decimals(9, 2), "decimal(9,2)", decimal),
        Stored("dec_long", decimals(18, 6), "decimal(18,6)", decimal),
        Stored("dec_wide", decimals(38, 10), "decimal(38,10)", decimal),
        Stored("struct", STRUCT, "struct<n:bigint,s:string,in:struct<d:double>>", _struct_of(text, double)),
        Stored("list", LIST, "array<int>", _list_of(same)),
        Stored("lists", LISTS, "array<array<string>>", _list_of(_list_of(text))),
        Stored("map", MAP, "map<string,bigint>", lambda pairs: as_map(_pairs_of(text, same)(pairs))),
        Stored("nested", NESTED, "array<struct<m:map<int,array<struct<x:string>>>,y:int>>", _nested_of(text, as_map)),
        Stored("union", unions(nulls=null_branches), "uniontype<bigint,string,struct<d:double>,array<int>>", union),
        Stored(
            "unions",
            lists_of_unions(nulls=null_branches),
            "array<uniontype<int,map<string,uniontype<int,string>>>>",
            _list_of(outer),
        ),
    ]


def _of_rows(columns: list[Stored], settings: Settings) -> list[Stored]:
    """The columns, or the one that rows consist of if they are no structs."""
    if settings["row"] is None:
        return columns
    return [replace(column, name="value") for column in columns if column.name == settings["row"]]


_JAVA_COLUMNS = _columns(
    _json_text, encoded_bytes, float_bits, double_bits, str, list, lambda *pair: pair, null_branches=True
)


def _java_columns(settings: Settings) -> list[Stored]:
    zoned = not settings["utc"] and settings["zone"] != "UTC"
    columns = [
        *_JAVA_COLUMNS,
        Stored("date", DATE if settings["proleptic"] else _PLAIN_DATES, "date"),
        Stored("timestamp", _ZONED if zoned else _TIMESTAMP, "timestamp"),
        Stored("instant", _TIMESTAMPTZ, "timestamp with local time zone"),
    ]
    return _of_rows(columns, settings)


def _write_by_java(path: Path, content: Content, settings: Settings) -> None:
    flat = [column.name for column in content.columns if "<" not in column.native]
    properties = {
        "orc.compress": settings["codec"],
        "orc.write.format": settings["version"],
        "orc.row.index.stride": settings["row_index"],
        "orc.create.index": str(settings["row_index"] != "0").lower(),
        "orc.stripe.row.count": settings["stripe_rows"],
        "orc.compress.size": settings["buffer"],
        "orc.buffer.size.enforce": "true",
        "orc.encoding.strategy": settings["strategy"],
        "orc.dictionary.key.threshold": settings["dictionary"],
        "orc.dictionary.implementation": settings["dictionary_impl"],
        "orc.bloom.filter.columns": ",".join(flat) if settings["bloom"] else "",
        "orc.bloom.filter.write.version": settings["bloom_version"],
        "orc.column.encoding.direct": ",".join(flat) if settings["direct"] else "",
        "orc.proleptic.gregorian": str(settings["proleptic"]).lower(),
    }
    java().ask(
        do="orc",
        path=str(path),
        schema=_orc_schema(content, settings),
        rows=list(zip(*content.encoded(), strict=True)),
        properties=properties,
        **{name: settings[name] for name in ("zone", "utc", "decimal_64", "writer_version")},
    )


def _orc_schema(content: Content, settings: Settings) -> str:
    if settings["row"] is not None:
        return str(content.columns[0].native)
    return "struct<{}>".format(",".join(f"{column.name}:{column.native}" for column in content.columns))


ORC_JAVA = Writer("ORC for Java", "orc", _JAVA_CHOICES, _java_columns, _write_by_java, (200, 0, 200, 2500, 1, 130))

_ONE_BATCH = 1024
"""More rows than a file has: pyorc stores null unions wrongly if it takes several batches for them."""

_PYORC_CHOICES: Choices = {
    "codec": ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"],
    "row_index_stride": [10_000, 0, 50, 7],
    "stripe_size": [1 << 26, 1],
    "batch_size": [_ONE_BATCH, 50, 7],
    "block_size": [1 << 16, 1024],
    "strategy": ["SPEED", "COMPRESSION"],
    "dictionary": [0.0, 1.0],
    "bloom": [False, True],
    "zone": ["UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"],
    "row": [None, None, None, "string", "list"],
}
_EPOCH = datetime(1970, 1, 1)


def _shown_in(zone: tzinfo) -> Callable[[int], datetime]:
    """The moment at which clocks of the zone show this time; pyorc takes any other for one of this machine's zone."""
    return lambda micros: (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=zone)


def _day(days: int) -> date:
    return date.fromordinal(_EPOCH.toordinal() + days)


# pyorc takes seconds from a float, which rounds the last microseconds of later ones up.
_EXACT = _storable(moments(TimestampType(), _GREGORIAN * DAY, 280 * YEAR))
_EXACT_INSTANT = replace(_EXACT, type=TimestamptzType())
# It takes null for a null union.
_PYORC_COLUMNS = _columns(same, same, same, same, same, dict, lambda _, value: value, null_branches=False)


def _pyorc_columns(settings: Settings) -> list[Stored]:
    zoned = settings["zone"] != "UTC"
    columns = [
        *(column for column in _PYORC_COLUMNS if settings["batch_size"] == _ONE_BATCH or "union" not in column.name),
        Stored("date", integers(DATE.type, FIRST_DAY, LAST_DAY), "date", _day),
        Stored("timestamp", _ZONED if zoned else _EXACT, "timestamp", _shown_in(ZoneInfo(settings["zone"]))),
        Stored("instant", _EXACT_INSTANT, "timestamp with local time zone", _shown_in(UTC)),
    ]
    return _of_rows(columns, settings)


def _write_by_pyorc(path: Path, content: Content, settings: Settings) -> None:
    bloom = [column.name for column in content.columns if settings["bloom"] and settings["row"] is None]
    with (
        path.open("wb") as file,
        pyorc.Writer(
            file,
            _orc_schema(content, settings),
            batch_size=settings["batch_size"],
            stripe_size=settings["stripe_size"],
            row_index_stride=settings["row_index_stride"],
            compression=pyorc.CompressionKind[settings["codec"]],
            compression_strategy=pyorc.CompressionStrategy[settings["strategy"]],
            compression_block_size=settings["block_size"],
            memory_block_size=settings["block_size"],
            bloom_filter_columns=bloom or None,
            timezone=ZoneInfo(settings["zone"]),
            dict_key_size_threshold=settings["dictionary"],
        ) as writer,
    ):
        rows = content.encoded()
        writer.writerows(zip(*rows, strict=True) if settings["row"] is None else rows[0])


PYORC = Writer("pyorc", "orc", _PYORC_CHOICES, _pyorc_columns, _write_by_pyorc)
