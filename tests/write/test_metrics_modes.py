"""Which metrics are kept for which column."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from formatkit.errors import ConfigurationError
from formatkit.write.metrics import metrics_modes

SCHEMA = Schema(
    NestedField(1, "a", LongType(), required=False),
    NestedField(2, "s", StructType(NestedField(3, "x", StringType(), required=False)), required=False),
    NestedField(4, "l", ListType(5, LongType(), element_required=False), required=False),
    NestedField(6, "m", MapType(7, StringType(), 8, LongType(), value_required=False), required=False),
)


def modes(schema: Schema = SCHEMA, sorted_ids: Any = (), **properties: Any) -> dict[int, str]:
    named = {f"write.metadata.metrics.{name.replace('_', '-')}": value for name, value in properties.items()}
    return {field_id: str(mode) for field_id, mode in metrics_modes(schema, named, sorted_ids).items()}


def flat(columns: int) -> Schema:
    return Schema(*(NestedField(i, f"c{i}", LongType(), required=False) for i in range(1, columns + 1)))


def test_the_default_is_to_truncate_at_16_for_every_leaf() -> None:
    assert modes() == dict.fromkeys((1, 3, 5, 7, 8), "truncate(16)")


def test_the_default_can_be_set() -> None:
    assert modes(default="Counts") == dict.fromkeys((1, 3, 5, 7, 8), "counts")


def test_columns_override_the_default_by_dotted_name() -> None:
    found = modes(SCHEMA, default="none", **{"column.s.x": "full", "column.l.element": "counts", "column.gone": "full"})
    assert found == {1: "none", 3: "full", 5: "counts", 7: "none", 8: "none"}


def test_wide_tables_keep_metrics_for_the_first_hundred_columns() -> None:
    assert modes(flat(100)) == dict.fromkeys(range(1, 101), "truncate(16)")
    found = modes(flat(103), **{"column.c102": "counts"})
    assert [found[i] for i in (1, 100, 101, 102, 103)] == ["truncate(16)"] * 2 + ["none", "counts", "none"]


def test_the_limit_can_be_set_and_does_not_bind_an_explicit_default() -> None:
    assert modes(flat(3), max_inferred_column_defaults="2") == {1: "truncate(16)", 2: "truncate(16)", 3: "none"}
    assert modes(flat(3), max_inferred_column_defaults="0") == dict.fromkeys((1, 2, 3), "none")
    assert modes(flat(3), max_inferred_column_defaults="2", default="full") == dict.fromkeys((1, 2, 3), "full")


def test_the_limit_reaches_plain_columns_before_nested_ones() -> None:
    schema = Schema(
        NestedField(1, "deep", StructType(
            NestedField(2, "deeper", StructType(NestedField(3, "x", LongType(), required=False)), required=False),
            NestedField(4, "y", LongType(), required=False),
        ), required=False),
        NestedField(5, "plain", LongType(), required=False),
        NestedField(6, "other", StructType(NestedField(7, "z", LongType(), required=False)), required=False),
    )  # fmt: skip
    order = [5, 4, 3, 7]
    for limit in range(5):
        found = modes(schema, max_inferred_column_defaults=str(limit))
        assert {i for i, mode in found.items() if mode != "none"} == set(order[:limit])


@pytest.mark.parametrize(
    ("default", "expected"),
    [("none", "truncate(16)"), ("counts", "truncate(16)"), ("full", "full"), ("truncate(4)", "truncate(4)")],
)
def test_sorted_columns_have_bounds_at_least(default: str, expected: str) -> None:
    found = modes(default=default, sorted_ids=(1,))
    assert (found[1], found[3]) == (expected, default)


def test_what_is_set_for_a_sorted_column_wins() -> None:
    assert modes(SCHEMA, (1,), **{"column.a": "none"})[1] == "none"


@pytest.mark.parametrize(
    ("name", "value"),
    [("default", "some"), ("column.a", "truncate(0)"), ("column.a", ""), ("max_inferred_column_defaults", "-1")],
)
def test_nonsense_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match="write.metadata.metrics." + name.replace("_", "-")):
        modes(SCHEMA, (), **{name: value})
