"""fastparquet, which writes pandas' frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastparquet
import numpy as np
import pandas as pd
from pyiceberg.types import IntegerType, LongType, TimestamptzType

from support.corpus.content import Content, Stored
from support.corpus.settings import Choices, Settings
from support.corpus.values import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP_NANO,
    Domain,
    integers,
    steps,
)
from support.corpus.writer import Writer

__all__ = ["FASTPARQUET"]

_CHOICES: Choices = {
    "compression": [None, "SNAPPY", "GZIP", "ZSTD", "BROTLI", "LZ4_RAW"],
    "row_group_offsets": [None, 50, 7],
    "times": ["int64", "int96"],
    "stats": [True, False],
    "has_nulls": [True, False],
}


def _masked(kind: str) -> Callable[[list[Any]], Any]:
    """A column of pandas that knows nulls."""
    return lambda values: pd.array(values, dtype=kind)


def _plain(kind: str) -> Callable[[list[Any]], Any]:
    return lambda values: np.array(values, dtype=kind)


def _objects(values: list[Any]) -> Any:
    return pd.Series(values, dtype=object)


def _categories(values: list[Any]) -> Any:
    known = sorted({value for value in values if value is not None}) or ["unused"]
    return pd.Categorical(values, categories=pd.Index(known, dtype=object))


def _without_nan(domain: Domain) -> Domain:
    """pandas takes NaN for null."""
    return replace(domain, edges=[edge for edge in domain.edges if edge == edge])


_NULLABLE = [
    Stored("boolean", BOOLEAN, _masked("boolean")),
    Stored("int8", integers(IntegerType(), -128, 127), _masked("Int8")),
    Stored("int32", INT, _masked("Int32")),
    Stored("uint32", integers(LongType(), 0, 2**32 - 1), _masked("UInt32")),
    Stored("int64", LONG, _masked("Int64")),
    Stored("text", STRING, _objects),
    Stored("bytes", BINARY, _objects),
    Stored("category", STRING, _categories),
]
_FULL = [
    Stored("double_full", _without_nan(DOUBLE), _plain("float64"), required=True),
    Stored("float_full", _without_nan(FLOAT), _plain("float32"), required=True),
    Stored("int32_full", INT, _plain("int32"), required=True),
    Stored("int64_full", LONG, _plain("int64"), required=True),
    Stored("flag_full", BOOLEAN, _plain("bool"), required=True),
]


def _columns(settings: Settings) -> list[Stored]:
    nanos = Stored("moment", TIMESTAMP_NANO, _plain("datetime64[ns]"), required=True)
    micros = replace(steps(TIMESTAMP_NANO, 1000), type=TimestamptzType())
    int96 = Stored("int96", _divided(micros), _scaled, required=True)
    times = [int96 if settings["times"] == "int96" else nanos]
    return [*(_NULLABLE if settings["has_nulls"] else ()), *_FULL, *times]


def _divided(nanos: Domain) -> Domain:
    return Domain(nanos.type, [edge // 1000 for edge in nanos.edges], lambda r, reach: nanos.draw(r, reach) // 1000)


def _scaled(micros: list[int]) -> Any:
    return np.array([value * 1000 for value in micros], dtype="datetime64[ns]")


def _write(path: Path, content: Content, settings: Settings) -> None:
    columns = zip(content.columns, content.encoded(), strict=True)
    frame = pd.DataFrame({column.name: column.native(values) for column, values in columns})
    kinds = {"text": "utf8", "bytes": "bytes"}
    fastparquet.write(str(path), frame, object_encoding={name: kinds.get(name, "infer") for name in frame}, **settings)


FASTPARQUET = Writer("fastparquet", "parquet", _CHOICES, _columns, _write)
