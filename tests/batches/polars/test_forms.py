"""What only Polars has: types of its own, names that must differ, panics."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import polars as pl
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimeType,
)

from formatkit.batches.polars import PolarsBatch, polars_schema, polars_type, series_of
from formatkit.contract import Variant, VariantType
from formatkit.contract.batch import InjectedColumn
from formatkit.errors import InvalidDataError, UnsupportedError

OPS = PolarsBatch()
PAIRS = MapType(2, StringType(), 3, IntegerType(), value_required=False)


def rows_of(kind: IcebergType, column: pl.Series) -> list[Any]:
    """The values, once they went through the canonical form."""
    schema = Schema(NestedField(1, "c", kind))
    canonical = OPS.evolve(schema, schema, {})(column.to_frame())
    assert canonical.schema == polars_schema(schema)
    return [value for (value,) in OPS.rows(schema, canonical)]


@pytest.mark.parametrize(
    ("kind", "column", "expected"),
    [
        (StringType(), pl.Series(["a", None], dtype=pl.Categorical), ["a", None]),
        (StringType(), pl.Series(["a", None], dtype=pl.Enum(["b", "a"])), ["a", None]),
        (LongType(), pl.Series([2**63 - 1, None], dtype=pl.Int128), [2**63 - 1, None]),
        (ListType(2, IntegerType()), pl.Series([[1, 2], None], dtype=pl.Array(pl.Int8, 2)), [[1, 2], None]),
        (
            ListType(2, ListType(3, IntegerType())),
            pl.Series([[[1, 2], [3, 4]], None], dtype=pl.Array(pl.Int32, (2, 2))),
            [[[1, 2], [3, 4]], None],
        ),
        (
            PAIRS,
            pl.Series([[{"key": "a", "value": 1}], None, []], dtype=polars_type(PAIRS)).cast(
                pl.Map(pl.String, pl.Int32)
            ),
            [[("a", 1)], None, []],
        ),
        (
            PAIRS,
            pl.Series([[{"k": "a", "v": 1}, {"k": "a", "v": None}]]),
            [[("a", 1), ("a", None)]],
        ),
        (
            StructType(NestedField(2, "s", StringType())),
            pl.Series([{"other": "a"}, None], dtype=pl.Struct({"other": pl.Categorical})),
            [("a",), None],
        ),
    ],
)
def test_types_of_polars_own_are_accepted(kind: IcebergType, column: pl.Series, expected: list[Any]) -> None:
    assert rows_of(kind, column) == expected


@pytest.mark.parametrize("unit", ["ms", "ns"])
def test_a_time_that_another_unit_cannot_hold_is_refused_without_a_panic(unit: str) -> None:
    far = pl.Series([2**62 + 1]).cast(pl.Datetime(unit))  # type: ignore[arg-type]
    with pytest.raises(InvalidDataError, match="does not fit"):
        rows_of(TimestampType(), far)


def test_dates_and_times_beyond_python_survive() -> None:
    assert rows_of(DateType(), series_of(DateType(), [2**31 - 1, -(2**31)])) == [2**31 - 1, -(2**31)]
    assert rows_of(TimestampType(), series_of(TimestampType(), [2**63 - 1])) == [2**63 - 1]


def test_times_are_microseconds_outside_and_nanoseconds_inside() -> None:
    assert series_of(TimeType(), [1]).to_physical().to_list() == [1000]


VARIANTS = [Variant.of({"a": 1}), None, Variant.of(None)]


@pytest.mark.parametrize("names", [("metadata", "value"), ("value", "metadata")], ids=str)
def test_variants_are_structs_of_two_parts_in_any_order(names: tuple[str, str]) -> None:
    values = [each and {name: getattr(each, name) for name in names} for each in VARIANTS]
    kind = pl.Struct(OrderedDict.fromkeys(names, pl.Binary()))
    assert rows_of(VariantType(), pl.Series(values, dtype=kind)) == VARIANTS


def test_a_struct_of_other_parts_is_no_variant() -> None:
    with pytest.raises(InvalidDataError, match="Polars type"):
        rows_of(VariantType(), pl.Series([{"metadata": b"", "typed_value": b""}]))


def test_a_type_that_nobody_knows_is_refused() -> None:
    class Strange(IcebergType):
        pass

    with pytest.raises(UnsupportedError, match="no Polars form"):
        polars_type(Strange())


def test_steps_follow_a_change_of_layout() -> None:
    schema = Schema(NestedField(1, "s", StringType()))
    step = OPS.evolve(schema, schema, {})
    plain, encoded = pl.DataFrame({"s": ["a"]}), pl.DataFrame({"s": pl.Series(["b"], dtype=pl.Categorical)})
    renamed = plain.rename({"s": "t"})
    for frame, value in ((plain, "a"), (encoded, "b"), (renamed, "a"), (plain, "a")):
        assert step(frame).to_dict(as_series=False) == {"s": [value]}


def test_a_step_may_be_shared_by_threads() -> None:
    schema = Schema(NestedField(1, "s", StringType()))
    step = OPS.evolve(schema, schema, {})
    frames = [pl.DataFrame({"s": pl.Series(["a"], dtype=kind)}) for kind in (pl.String, pl.Categorical)]
    wrong: list[Any] = []

    def work(frame: pl.DataFrame) -> None:
        for _ in range(200):
            found = step(frame)
            if found.rows() != [("a",)] or found.dtypes != [pl.String]:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(frame,)) for frame in frames]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_injected_column_keeps_a_name_that_is_free() -> None:
    injected = [InjectedColumn(field=NestedField(2, "a", LongType()), value=1)]
    schema = Schema(NestedField(1, "b", LongType()))
    assert OPS.inject(schema, injected)(pl.DataFrame({"b": [5]})).columns == ["b", "a"]
    assert OPS.inject(schema, injected)(pl.DataFrame({"a": [5]})).rows() == [(5, 1)]
