"""Lies of manifests and manifest lists that can be told from the metadata itself."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from functools import partial
from typing import Any

import fastavro
from hints.edits import Lie
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

__all__ = ["AvroRecords", "metrics_lies", "summary_lies"]

_HUGE = 1 << 40
_NUMBERS = (BooleanType, DateType, DoubleType, IntegerType, LongType, TimestampType)
_MAPS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


class AvroRecords:
    """The records of a manifest or of a manifest list, to be changed and written again."""

    def __init__(self, data: bytes) -> None:
        reader = fastavro.reader(io.BytesIO(data))
        self._schema: Any = reader.writer_schema
        self._metadata = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
        self.records: list[Any] = list(reader)

    def to_bytes(self) -> bytes:
        output = io.BytesIO()
        fastavro.writer(output, self._schema, self.records, metadata=self._metadata)
        return output.getvalue()


def metrics_lies(file: dict[str, Any], column: NestedField, *, nested: bool) -> Iterator[Lie]:
    """Lies about one column of a data file."""
    id_, rows = column.field_id, file["record_count"]
    claim = partial(_put, file)
    for name in _MAPS:
        yield f"no {name}", partial(file.__setitem__, name, None)
        yield f"nothing in {name}", partial(_take, file, name, id_)
    for number in (-1, rows + 1, _HUGE):
        yield f"value_count {number}", partial(claim, "value_counts", id_, number)
        yield f"null_count {number}", partial(claim, "null_value_counts", id_, number)
        yield f"nan_count {number}", partial(claim, "nan_value_counts", id_, number)
    lower, upper = (_get(file, name, id_) for name in ("lower_bounds", "upper_bounds"))
    if not nested:
        yield "value_count 0", partial(claim, "value_counts", id_, 0)
    if not isinstance(column.field_type, DoubleType):
        yield "NaN in another type", partial(claim, "nan_value_counts", id_, 1)
    if column.required:
        yield "nulls in a required column", partial(claim, "null_value_counts", id_, 1)
    if lower is None or upper is None:
        return
    if _get(file, "value_counts", id_) == rows:
        yield "only nulls beside bounds", partial(claim, "null_value_counts", id_, rows)
    for name, bound in (("lower_bounds", lower), ("upper_bounds", upper)):
        for what, wrong in _wrong_bounds(column, bound):
            yield f"{name}: {what}", partial(claim, name, id_, wrong)
    if lower != upper:
        yield "lower above upper", partial(_swap, file, id_, lower, upper)


def _wrong_bounds(column: NestedField, bound: bytes) -> Iterator[tuple[str, bytes]]:
    if isinstance(column.field_type, _NUMBERS):
        yield "cut", bound[:-1]
        yield "empty", b""
        yield "long", bound + b"\1"
    if isinstance(column.field_type, DoubleType):
        yield "NaN", struct.pack("<d", float("nan"))
    if isinstance(column.field_type, DecimalType):
        yield "empty", b""
        yield "huge", b"\x7f" * 20
    if isinstance(column.field_type, StringType):
        yield "no UTF-8", b"m\xffm"


def _swap(file: dict[str, Any], id_: int, lower: bytes, upper: bytes) -> None:
    _put(file, "lower_bounds", id_, upper)
    _put(file, "upper_bounds", id_, lower)


def _get(file: dict[str, Any], name: str, id_: int) -> Any:
    return next((pair["value"] for pair in file[name] or () if pair["key"] == id_), None)


def _take(file: dict[str, Any], name: str, id_: int) -> None:
    file[name] = [pair for pair in file[name] or () if pair["key"] != id_]


def _put(file: dict[str, Any], name: str, id_: int, value: Any) -> None:
    _take(file, name, id_)
    file[name].append({"key": id_, "value": value})


def summary_lies(line: dict[str, Any]) -> Iterator[Lie]:
    """Lies about the partitions and the files of a manifest."""
    summaries = line["partitions"]
    yield "no summaries", partial(line.__setitem__, "partitions", None)
    yield "a summary too few", partial(line.__setitem__, "partitions", summaries[1:])
    yield "a summary too many", partial(line.__setitem__, "partitions", [*summaries, summaries[0]])
    yield "rows without files", partial(line.update, added_files_count=0, existing_files_count=0)
    for number, summary in enumerate(summaries):
        lower, upper = summary["lower_bound"], summary["upper_bound"]
        if lower is None or upper is None:
            continue
        for name, bound in (("lower_bound", lower), ("upper_bound", upper)):
            yield f"{number}: no {name}", partial(summary.__setitem__, name, None)
            yield f"{number}: {name} is cut", partial(summary.__setitem__, name, bound[:-1])
            yield f"{number}: {name} is long", partial(summary.__setitem__, name, bound + b"\1\1\1\1\1\1\1\1\1")
        yield f"{number}: NaN", partial(summary.__setitem__, "contains_nan", True)
        if lower != upper:
            yield f"{number}: lower above upper", partial(summary.update, lower_bound=upper, upper_bound=lower)
        if not summary["contains_null"]:
            yield (
                f"{number}: neither values nor nulls",
                partial(summary.update, lower_bound=None, upper_bound=None, contains_nan=False),
            )
