from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import expressions
from pyiceberg.expressions import BooleanExpression, BoundReference
from pyiceberg.expressions.literals import literal
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
)

from formatkit.errors import ColumnNotFoundError, InvalidDataError, InvalidPredicateError
from support.arrow_forms import FORMS
from support.batch_types import ARROW, BatchType, every_batch_type
from support.typed_values import ALL_TYPES, TypedValues

E: Any = expressions  # PyIceberg's constructors are not the ones that their types tell of

by_type = pytest.mark.parametrize("sample", ALL_TYPES, ids=str)


def reference(schema: Schema, field_id: int) -> BoundReference:
    return BoundReference(schema.find_field(field_id), schema.accessor_for_field(field_id))


def kept(batches: BatchType, schema: Schema, columns: list[Any], predicate: BooleanExpression) -> list[int]:
    """Which rows the filter keeps, told by a column of row numbers behind the others."""
    numbered = Schema(*schema.fields, NestedField(999, "row", LongType()))
    rows = pa.array(range(len(columns[0])), pa.int64())
    left = batches.operations.filter(numbered, predicate)(batches.batch([*columns, rows]))
    project = batches.operations.project(numbered, [999])
    return batches.column(Schema(numbered.fields[-1]), project(left))


def one_column(sample: TypedValues) -> Schema:
    return Schema(NestedField(7, "value", sample.iceberg))


@every_batch_type
@pytest.mark.parametrize("name", ["string", "binary"])
@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_prefixes_are_two_valued(batches: BatchType, name: str, length: int) -> None:
    sample = next(sample for sample in ALL_TYPES if str(sample) == name)
    schema, values = one_column(sample), sample.with_specials
    for whole in sample.ascending:
        prefix = whole[:length]
        starts = [value is not None and value.startswith(prefix) for value in values]
        term = reference(schema, 7)
        expected = [row for row, does in enumerate(starts) if does]
        assert kept(batches, schema, [sample.column(values)], E.BoundStartsWith(term, literal(prefix))) == expected
        others = [row for row, does in enumerate(starts) if not does]
        assert kept(batches, schema, [sample.column(values)], E.BoundNotStartsWith(term, literal(prefix))) == others


@every_batch_type
@pytest.mark.parametrize("form", FORMS)
@by_type
def test_every_physical_form_is_filtered_alike(batches: BatchType, sample: TypedValues, form: str) -> None:
    schema, values = one_column(sample), sample.with_specials * 3
    column = FORMS[form](sample.column(values))
    if column is None or not batches.holds(column):
        return
    term, right = reference(schema, 7), sample.ascending[1]
    predicates: list[tuple[BooleanExpression, Callable[[Any], bool]]] = [
        (E.BoundEqualTo(term, literal(right)), lambda left: left is not None and left == right),
        (E.BoundNotEqualTo(term, literal(right)), lambda left: left is None or left != right),
        (E.BoundLessThan(term, literal(right)), lambda left: left is not None and left < right),
        (E.BoundIn(term, {literal(v) for v in sample.ascending[:2]}), lambda left: left in sample.ascending[:2]),
        (E.BoundNotIn(term, {literal(v) for v in sample.ascending[:2]}), lambda left: left not in sample.ascending[:2]),
        (E.BoundIsNull(term), lambda left: left is None),
        (E.BoundNotNull(term), lambda left: left is not None),
    ]
    for predicate, matches in predicates:
        expected = [row for row, value in enumerate(values) if matches(value)]
        assert kept(batches, schema, [column], predicate) == expected, predicate


@every_batch_type
def test_a_value_that_no_row_of_the_dictionary_has_matches_nothing(batches: BatchType) -> None:
    schema = Schema(NestedField(7, "value", StringType()))
    column = pa.array(["a", "b", None, "a"]).dictionary_encode()
    assert kept(batches, schema, [column], E.BoundEqualTo(reference(schema, 7), literal("c"))) == []
    assert kept(batches, schema, [column], E.BoundNotEqualTo(reference(schema, 7), literal("c"))) == [0, 1, 2, 3]


@every_batch_type
def test_null_as_a_value_of_the_dictionary_is_null(batches: BatchType) -> None:
    schema = Schema(NestedField(7, "value", StringType()))
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1, None]), pa.array(["a", None]))
    term = reference(schema, 7)
    assert kept(batches, schema, [column], E.BoundNotEqualTo(term, literal("a"))) == [1, 3, 4]
    assert kept(batches, schema, [column], E.BoundNotStartsWith(term, literal("a"))) == [1, 3, 4]
    assert kept(batches, schema, [column], E.BoundIsNull(term)) == [1, 3, 4]
    assert kept(batches, schema, [column], E.BoundLessThan(term, literal("z"))) == [0, 2]


NESTED = Schema(
    NestedField(1, "numbers", ListType(2, IntegerType(), element_required=False)),
    NestedField(3, "pairs", MapType(4, StringType(), 5, IntegerType(), value_required=False)),
    NestedField(
        6,
        "outer",
        StructType(
            NestedField(7, "other", StringType()),
            NestedField(8, "inner", StructType(NestedField(9, "leaf", IntegerType()))),
        ),
    ),
)
OUTER = [
    {"other": "x", "inner": {"leaf": 5}},
    None,
    {"other": None, "inner": None},
    {"other": "y", "inner": {"leaf": None}},
]
OUTER_TYPE = pa.struct([("other", pa.string()), ("inner", pa.struct([("leaf", pa.int32())]))])


@every_batch_type
def test_a_leaf_under_a_null_struct_is_null_even_if_something_lies_there(batches: BatchType) -> None:
    schema = Schema(NestedField(6, "outer", StructType(NestedField(9, "leaf", IntegerType()))))
    hidden = pa.StructArray.from_arrays(
        [pa.array([5, 5, 6], pa.int32())], names=["leaf"], mask=pa.array([False, True, False])
    )
    column = pa.concat_arrays([hidden, hidden]).slice(1, 4)
    assert kept(batches, schema, [column], E.BoundEqualTo(reference(schema, 9), literal(5))) == [2]
    assert kept(batches, schema, [column], E.BoundNotEqualTo(reference(schema, 9), literal(5))) == [0, 1, 3]


@every_batch_type
@pytest.mark.parametrize("form", ["plain", "sliced", "dictionary", "run ends", "sliced run ends", "extension"])
def test_leaves_are_found_in_every_form_of_their_struct(batches: BatchType, form: str) -> None:
    schema = Schema(NestedField(6, "outer", NESTED.find_field(6).field_type))
    outer = pa.array(OUTER, OUTER_TYPE)
    if form == "dictionary":
        column: Any = pa.DictionaryArray.from_arrays(pa.array([0, None, 2, 3]), outer)
    else:
        column = FORMS[form](outer)
    if not batches.holds(column):
        return
    term = BoundReference(schema.find_field(9), None)  # type: ignore[arg-type]
    assert kept(batches, schema, [column], E.BoundEqualTo(term, literal(5))) == [0]
    assert kept(batches, schema, [column], E.BoundNotEqualTo(term, literal(5))) == [1, 2, 3]


@every_batch_type
def test_a_column_of_unknown_type_is_null_everywhere(batches: BatchType) -> None:
    schema = Schema(NestedField(1, "a", UnknownType()))
    assert kept(batches, schema, [pa.nulls(2)], E.BoundIsNull(reference(schema, 1))) == [0, 1]
    assert kept(batches, schema, [pa.nulls(2)], E.BoundNotNull(reference(schema, 1))) == []


def test_columns_that_arrow_cannot_filter_are_decoded_on_the_way() -> None:
    schema = Schema(
        NestedField(1, "a", IntegerType()),
        NestedField(2, "views", ListType(3, StructType(NestedField(4, "s", StringType())))),
        NestedField(5, "runs", StringType()),
        NestedField(6, "named", MapType(7, StringType(), 8, StringType())),
    )
    views = pa.array([[{"s": "x"}], None, []], pa.list_(pa.struct([("s", pa.string_view())])))
    runs: Any = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["r", None]))
    named = pa.array([[("k", "v")], [], None], pa.map_(pa.string_view(), pa.string_view()))
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3], pa.int32()), views, runs, named], names=list("abcd"))
    left = ARROW.operations.filter(schema, E.BoundNotEqualTo(reference(schema, 1), literal(2)))(batch)
    assert ARROW.rows(schema, left) == [(1, [("x",)], "r", [("k", "v")]), (3, [], None, None)]


@every_batch_type
def test_a_column_of_another_type_is_refused(batches: BatchType) -> None:
    schema = Schema(NestedField(1, "a", IntegerType()))
    with pytest.raises(InvalidDataError, match=r"column 'a' is of the (Arrow|Polars) type [sS]tring"):
        kept(batches, schema, [pa.array(["1"])], E.BoundEqualTo(reference(schema, 1), literal(1)))


@every_batch_type
def test_a_literal_that_the_column_cannot_hold_is_refused_while_compiling(batches: BatchType) -> None:
    schema = Schema(NestedField(1, "a", IntegerType()))
    with pytest.raises(InvalidPredicateError, match="column 'a' of type int"):
        batches.operations.filter(schema, E.BoundEqualTo(reference(schema, 1), literal(2**40)))


@every_batch_type
def test_an_unbound_predicate_is_refused(batches: BatchType) -> None:
    with pytest.raises(InvalidPredicateError, match="only bound predicates"):
        batches.operations.filter(Schema(NestedField(1, "a", DoubleType())), E.EqualTo("a", 1.0))


@every_batch_type
def test_a_field_inside_a_list_is_not_found(batches: BatchType) -> None:
    term = BoundReference(NESTED.find_field(2), None)  # type: ignore[arg-type]
    with pytest.raises(ColumnNotFoundError, match="id 2"):
        batches.operations.filter(NESTED, E.BoundIsNull(term))
