from __future__ import annotations

import datetime as dt
import itertools
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.batches.arrow import ArrowBatch, arrow_schema
from formatkit.errors import (
    ContractViolationError,
    IllegalPromotionError,
    InvalidDataError,
    MissingRequiredFieldError,
)
from support.arrow_forms import FORMS
from support.batch_types import ARROW, BatchType, every_batch_type
from support.typed_values import ALL_TYPES, TypedValues

OPS = ArrowBatch()


def optional(field_id: int, name: str, kind: IcebergType, **more: Any) -> NestedField:
    return NestedField(field_id, name, kind, required=False, **more)


def required(field_id: int, name: str, kind: IcebergType, **more: Any) -> NestedField:
    return NestedField(field_id, name, kind, required=True, **more)


def with_default(field: NestedField, value: Any) -> NestedField:
    """For defaults that PyIceberg refuses to construct, those of structs and nanoseconds."""
    return field.model_copy(update={"initial_default": value})


def struct(*fields: NestedField) -> StructType:
    return StructType(*fields)


def list_of(element: IcebergType, field_id: int = 90, **more: Any) -> ListType:
    return ListType(field_id, element, **{"element_required": False, **more})


def map_to(value: IcebergType, key_id: int = 91, value_id: int = 92) -> MapType:
    return MapType(key_id, StringType(), value_id, value, value_required=False)


def batch_of(*columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), names=[f"c{i}" for i in range(len(columns))])


def evolve(
    batches: BatchType, source: Schema, target: Schema, *columns: Any, constants: dict[int, Any] | None = None
) -> pa.RecordBatch:
    """What becomes of the columns, as Arrow's canonical form whatever the batch type."""
    result = batches.operations.evolve(source, target, constants or {})(batches.batch(columns))
    return batches.canonical(target, result)


def evolved_column(batches: BatchType, source: IcebergType, target: IcebergType, column: Any) -> Any:
    return evolve(batches, Schema(optional(1, "c", source)), Schema(optional(1, "c", target)), column).column(0)


# The canonical form.


def test_the_canonical_form_of_every_type() -> None:
    inner = struct(required(21, "x", IntegerType()), optional(22, "y", UUIDType()))
    flat: list[tuple[IcebergType, pa.DataType]] = [(sample.iceberg, sample.arrow) for sample in ALL_TYPES]
    schema = Schema(
        *(optional(i, f"f{i}", kind) for i, (kind, _) in enumerate(flat, start=50)),
        required(1, "unknowable", UnknownType()),
        optional(2, "shape", GeometryType()),
        required(3, "list", ListType(4, inner, element_required=True)),
        optional(5, "map", MapType(6, StringType(), 7, LongType(), value_required=True)),
        optional(8, "struct", inner),
    )
    expected_inner = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.uuid())])
    value: Any = pa.field("value", pa.int64(), nullable=False)
    expected = pa.schema(
        [
            *(pa.field(f"f{i}", kind) for i, (_, kind) in enumerate(flat, start=50)),
            pa.field("unknowable", pa.null()),
            pa.field("shape", pa.binary()),
            pa.field("list", pa.list_(pa.field("element", expected_inner, nullable=False)), nullable=False),
            pa.field("map", pa.map_(pa.string(), value)),
            pa.field("struct", expected_inner),
        ]
    )
    assert arrow_schema(schema).equals(expected, check_metadata=True)


@every_batch_type
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sample", ALL_TYPES, ids=str)
def test_every_physical_form_becomes_the_canonical_one(batches: BatchType, sample: TypedValues, form: str) -> None:
    plain = sample.column(sample.with_specials)
    column = FORMS[form](plain)
    if column is not None and batches.holds(column):
        result = evolved_column(batches, sample.iceberg, sample.iceberg, column)
        assert str(result.cast(pa.string()) if sample.is_float else result) == str(
            plain.cast(pa.string()) if sample.is_float else plain
        )


@every_batch_type
@pytest.mark.parametrize(
    ("kind", "column", "expected"),
    [
        (IntegerType(), pa.array([1, None], pa.int8()), [1, None]),
        (IntegerType(), pa.array([65535], pa.uint16()), [65535]),
        (LongType(), pa.array([2**32 - 1], pa.uint32()), [2**32 - 1]),
        (FloatType(), pa.array([np.float16(0.5)], pa.float16()), [0.5]),
        (DateType(), pa.array([dt.date(2020, 1, 1)], pa.date64()), [dt.date(2020, 1, 1)]),
        (TimeType(), pa.array([dt.time(1, 2)], pa.time32("s")), [dt.time(1, 2)]),
        (TimestampType(), pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("ms")), [dt.datetime(2020, 1, 1)]),
        (TimestampType(), pa.array([1_000], pa.timestamp("ns")), [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
        (DecimalType(9, 2), pa.array([Decimal("1.10")], pa.decimal32(5, 2)), [Decimal("1.10")]),
        (DecimalType(9, 2), pa.array([Decimal("1.10")], pa.decimal128(38, 2)), [Decimal("1.10")]),
        (list_of(StringType()), pa.array([["a"], None, []], pa.large_list(pa.large_string())), [["a"], None, []]),
        (list_of(IntegerType()), pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), [[1, 2], None]),
        (list_of(IntegerType()), pa.array([[1, 2], None, []], pa.list_view(pa.int32())), [[1, 2], None, []]),
        (list_of(IntegerType()), pa.array([[1], None, []], pa.large_list_view(pa.int8())), [[1], None, []]),
    ],
)
def test_other_widths_and_units_are_accepted(
    batches: BatchType, kind: IcebergType, column: Any, expected: list[Any]
) -> None:
    if batches.holds(column):
        assert evolved_column(batches, kind, kind, column).to_pylist() == expected


@every_batch_type
@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (IntegerType(), pa.array([2**40])),
        (LongType(), pa.array([2**63], pa.uint64())),
        (TimestampType(), pa.array([1], pa.timestamp("ns"))),
        (TimestampType(), pa.array([2**60], pa.timestamp("s"))),
        (DecimalType(3, 2), pa.array([Decimal("123.45")], pa.decimal128(9, 2))),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_the_name_of_its_column(
    batches: BatchType, kind: IcebergType, column: Any
) -> None:
    with pytest.raises(InvalidDataError, match="column 'c' holds a value that does not fit"):
        evolved_column(batches, kind, kind, column)


@pytest.mark.parametrize("kind", [FixedType(2), UUIDType()], ids=str)
def test_binary_of_another_length_is_refused_where_the_type_has_a_length(kind: IcebergType) -> None:
    with pytest.raises(InvalidDataError, match="column 'c' holds a value that does not fit"):
        evolved_column(ARROW, kind, kind, pa.array([b"abc"], pa.binary()))


@every_batch_type
@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (IntegerType(), pa.array(["1"])),
        (IntegerType(), pa.array([1.0])),
        (FloatType(), pa.array([1.0], pa.float64())),
        (StringType(), pa.array([b"a"])),
        (BinaryType(), pa.array(["a"])),
        (DecimalType(9, 2), pa.array([Decimal("1.100")], pa.decimal128(9, 3))),
        (DecimalType(9, 2), pa.array([1])),
        (TimestampType(), pa.array([1], pa.timestamp("us", "UTC"))),
        (TimestamptzType(), pa.array([1], pa.timestamp("us"))),
        (BooleanType(), pa.array([1])),
        (DateType(), pa.array([1])),
        (struct(optional(2, "x", IntegerType())), pa.array([1])),
        (struct(optional(2, "x", IntegerType())), pa.array([{"x": 1, "y": 2}])),
        (list_of(IntegerType()), pa.array([1])),
        (list_of(IntegerType()), pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))),
        (map_to(IntegerType()), pa.array([[1]])),
    ],
)
def test_a_column_of_another_type_is_refused(batches: BatchType, kind: IcebergType, column: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"column 'c' is of the (Arrow|Polars) type"):
        evolved_column(batches, kind, kind, column)


@every_batch_type
def test_a_batch_with_another_number_of_columns_is_refused(batches: BatchType) -> None:
    schema = Schema(optional(1, "a", IntegerType()))
    with pytest.raises(ContractViolationError, match="2 columns, its schema has 1"):
        evolve(batches, schema, schema, pa.array([1]), pa.array([2]))


# What need not be done is not done.


@every_batch_type
def test_a_batch_that_is_what_is_asked_for_is_returned_as_it_is(batches: BatchType) -> None:
    schema = Schema(optional(1, "a", IntegerType()), optional(2, "b", list_of(struct(required(3, "x", UUIDType())))))
    batch = batches.operations.concat(schema, [])
    assert batches.operations.evolve(schema, schema, {})(batch) is batch


@pytest.mark.parametrize("metadata", [None, {"PARQUET:field_id": "1"}])
def test_names_and_metadata_are_changed_without_copying_values(metadata: dict[str, str] | None) -> None:
    column = pa.array([[{"x": 1}], None])
    inner = pa.list_(pa.field("item", pa.struct([pa.field("x", pa.int64(), metadata=metadata)]), metadata=metadata))
    batch = pa.RecordBatch.from_arrays(
        [column.cast(inner)], schema=pa.schema([pa.field("b", inner, metadata=metadata)])
    )
    source = Schema(optional(1, "b", list_of(struct(optional(3, "x", LongType())))))
    target = Schema(optional(1, "renamed", list_of(struct(optional(3, "y", LongType())))))
    result = OPS.evolve(source, target, {})(batch)
    assert result.schema.equals(arrow_schema(target), check_metadata=True)
    assert result.column(0).type.equals(arrow_schema(target).types[0], check_metadata=True)
    assert result.column(0).to_pylist() == [[{"y": 1}], None]
    before, after = (each.column(0).buffers()[-1] for each in (batch, result))
    assert before is not None
    assert after is not None
    assert before.address == after.address


@pytest.mark.parametrize("level", ["schema", "field", "child"])
def test_metadata_is_dropped_at_every_level(level: str) -> None:
    def metadata(here: str) -> Any:
        return {"k": "v"} if level == here else None

    child = pa.struct([pa.field("x", pa.int32(), metadata=metadata("child"))])
    tagged = pa.schema([pa.field("s", child, metadata=metadata("field"))], metadata=metadata("schema"))
    schema = Schema(optional(1, "s", struct(optional(2, "x", IntegerType()))))
    column: Any = pa.StructArray.from_arrays([pa.array([1], pa.int32())], fields=list(child))
    result = OPS.evolve(schema, schema, {})(pa.RecordBatch.from_arrays([column], schema=tagged))
    assert result.schema.equals(arrow_schema(schema), check_metadata=True)
    assert result.column(0).type.equals(arrow_schema(schema).types[0], check_metadata=True)


@every_batch_type
def test_rows_are_counted_without_columns(batches: BatchType) -> None:
    source = Schema(optional(1, "a", IntegerType()))
    assert evolve(batches, source, Schema(), pa.array([1, 2, 3], pa.int32())).num_rows == 3
    empty = batches.batch([], rows=3)
    target = Schema(optional(2, "b", StringType(), initial_default="x"))
    filled = batches.operations.evolve(Schema(), target, {})(empty)
    assert batches.canonical(target, filled).to_pydict() == {"b": ["x"] * 3}
    assert batches.operations.num_rows(batches.operations.evolve(Schema(), Schema(), {})(empty)) == 3


# Promotion.


@every_batch_type
@pytest.mark.parametrize(
    ("source", "target", "column", "expected"),
    [
        (IntegerType(), LongType(), pa.array([-(2**31), None], pa.int32()), [-(2**31), None]),
        (FloatType(), DoubleType(), pa.array([0.1, None], pa.float32()), [0.10000000149011612, None]),
        (
            DecimalType(9, 2),
            DecimalType(38, 2),
            pa.array([Decimal("-9999999.99"), None], pa.decimal128(9, 2)),
            [Decimal("-9999999.99"), None],
        ),
        (
            DateType(),
            TimestampType(),
            pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
            [dt.datetime(1, 1, 1), None, dt.datetime(9999, 12, 31)],
        ),
        (UnknownType(), IntegerType(), pa.nulls(2), [None, None]),
        (UnknownType(), struct(optional(5, "x", IntegerType())), pa.nulls(2), [None, None]),
        (StringType(), UnknownType(), pa.array(["ignored"]), [None]),
        (FixedType(16), UUIDType(), pa.array([bytes(16), None], pa.binary(16)), [uuid.UUID(int=0), None]),
        (list_of(IntegerType()), list_of(LongType()), pa.array([[1], None, []], pa.list_(pa.int32())), [[1], None, []]),
        (
            map_to(FloatType()),
            map_to(DoubleType()),
            pa.array([[("a", 0.5)], None, []], pa.map_(pa.string(), pa.float32())),
            [[("a", 0.5)], None, []],
        ),
        (
            struct(optional(5, "x", IntegerType())),
            struct(optional(5, "x", LongType())),
            pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())])),
            [{"x": 1}, None],
        ),
    ],
)
@pytest.mark.parametrize("offset", [0, 1])
def test_promotions_keep_the_values(
    batches: BatchType, source: IcebergType, target: IcebergType, column: Any, expected: list[Any], offset: int
) -> None:
    result = evolved_column(batches, source, target, column.slice(offset))
    assert result.to_pylist() == expected[offset:]


@every_batch_type
@pytest.mark.parametrize("target", [TimestampType(), TimestampNanoType()], ids=str)
@pytest.mark.parametrize("days", [2**31 - 1, -(2**31)])
def test_a_date_that_the_timestamp_cannot_hold_is_refused(batches: BatchType, target: IcebergType, days: int) -> None:
    column = pa.array([0, days], pa.int32()).cast(pa.date32())
    with pytest.raises(InvalidDataError, match=r"column 'c' holds a (date|value)"):
        evolved_column(batches, DateType(), target, column)


@every_batch_type
def test_a_date_under_a_null_parent_is_no_data(batches: BatchType) -> None:
    hidden = pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32())
    column = pa.StructArray.from_arrays([hidden], names=["x"], mask=pa.array([False, True]))
    source, target = struct(optional(5, "x", DateType())), struct(optional(5, "x", TimestampNanoType()))
    assert evolved_column(batches, source, target, column).is_valid().to_pylist() == [True, False]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), hidden, mask=pa.array([False, True]))
    assert evolved_column(batches, list_of(DateType()), list_of(TimestampNanoType()), lists).null_count == 1


@every_batch_type
@pytest.mark.parametrize("form", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_binary_is_read_as_text(batches: BatchType, form: pa.DataType) -> None:
    column = pa.array([b"a", "é".encode(), None, b""], pa.binary()).cast(form)
    assert evolved_column(batches, BinaryType(), StringType(), column).to_pylist() == ["a", "é", None, ""]


@every_batch_type
def test_binary_that_is_no_text_is_refused_by_name(batches: BatchType) -> None:
    with pytest.raises(InvalidDataError, match=r"'c'.*not UTF-8"):
        evolved_column(batches, BinaryType(), StringType(), pa.array([b"\xff"], pa.binary()))


LEGAL = {
    (IntegerType(), LongType()),
    (FloatType(), DoubleType()),
    (DateType(), TimestampType()),
    (DateType(), TimestampNanoType()),
    (DecimalType(9, 2), DecimalType(18, 2)),
    (FixedType(16), UUIDType()),
    (BinaryType(), StringType()),
}
EVERY_KIND: list[IcebergType] = [
    BooleanType(),
    IntegerType(),
    LongType(),
    FloatType(),
    DoubleType(),
    DateType(),
    TimeType(),
    TimestampType(),
    TimestamptzType(),
    TimestampNanoType(),
    TimestamptzNanoType(),
    StringType(),
    BinaryType(),
    UUIDType(),
    FixedType(16),
    FixedType(8),
    DecimalType(9, 2),
    DecimalType(18, 2),
    DecimalType(18, 4),
    struct(),
    list_of(StringType()),
    map_to(StringType()),
]


@every_batch_type
@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(EVERY_KIND, 2)), ids=str)
def test_only_iceberg_promotions_are_compiled(batches: BatchType, source: IcebergType, target: IcebergType) -> None:
    schemas = Schema(optional(1, "c", source)), Schema(optional(1, "c", target))
    if (source, target) in LEGAL:
        batches.operations.evolve(*schemas, {})
    else:
        with pytest.raises(IllegalPromotionError) as caught:
            batches.operations.evolve(*schemas, {})
        for part in ("'c'", str(source), str(target)):
            assert part in str(caught.value)


@every_batch_type
def test_an_illegal_promotion_deep_inside_is_named_by_its_path(batches: BatchType) -> None:
    source = Schema(optional(1, "a", list_of(struct(optional(5, "b", LongType())))))
    target = Schema(optional(1, "a", list_of(struct(optional(5, "b", IntegerType())))))
    with pytest.raises(IllegalPromotionError, match=r"a\.element\.b"):
        batches.operations.evolve(source, target, {})


# Fields that the file lacks.


@every_batch_type
@pytest.mark.parametrize("sample", ALL_TYPES, ids=str)
def test_a_missing_field_takes_its_constant_before_its_default_before_null(
    batches: BatchType, sample: TypedValues
) -> None:
    source = Schema(optional(1, "a", IntegerType()))
    field = optional(2, "b", sample.iceberg)
    numbers = pa.array([1, 2], pa.int32())
    first, last = sample.ascending[0], sample.ascending[-1]

    def filled(field: NestedField, constants: dict[int, Any]) -> Any:
        return evolve(batches, source, Schema(field), numbers, constants=constants).column(0)

    assert filled(field, {}).null_count == 2
    defaulted = with_default(field, last)
    assert str(filled(defaulted, {})) == str(sample.column([last] * 2))
    assert str(filled(defaulted, {2: first})) == str(sample.column([first] * 2))
    assert filled(defaulted, {2: None}).null_count == 2


@every_batch_type
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (DateType(), dt.date(2020, 1, 1), dt.date(2020, 1, 1)),
        (TimeType(), dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 4)),
        (TimestampType(), dt.datetime(1969, 1, 1, 1), dt.datetime(1969, 1, 1, 1)),
        (
            TimestamptzType(),
            dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            dt.datetime(2019, 12, 31, 22, tzinfo=dt.UTC),
        ),
        (UUIDType(), uuid.UUID(int=7), uuid.UUID(int=7)),
        (DecimalType(9, 2), Decimal("1.1"), Decimal("1.10")),
        (BinaryType(), bytearray(b"x"), b"x"),
        (StringType(), "", ""),
        (BooleanType(), False, False),
        (DoubleType(), 1, 1.0),
        (list_of(UUIDType()), [uuid.UUID(int=7), None], [uuid.UUID(int=7), None]),
        (map_to(DateType()), {"a": dt.date(2020, 1, 1)}, [("a", dt.date(2020, 1, 1))]),
        (map_to(IntegerType()), [("a", 1)], [("a", 1)]),
        (
            struct(optional(5, "x", UUIDType()), optional(6, "y", IntegerType(), initial_default=9)),
            {"x": uuid.UUID(int=7)},
            {"x": uuid.UUID(int=7), "y": 9},
        ),
        (struct(optional(5, "x", IntegerType()), optional(6, "y", IntegerType())), (1, None), {"x": 1, "y": None}),
    ],
)
def test_constants_may_be_values_of_python(batches: BatchType, kind: IcebergType, value: Any, expected: Any) -> None:
    target = Schema(optional(2, "b", kind))
    rows = evolve(
        batches, Schema(optional(1, "a", IntegerType())), target, pa.array([1, 2], pa.int32()), constants={2: value}
    )
    assert rows.column(0).to_pylist() == [expected] * 2


@every_batch_type
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (IntegerType(), "1"),
        (IntegerType(), True),
        (IntegerType(), 2**31),
        (DecimalType(3, 2), Decimal("1.234")),
        (DecimalType(3, 2), Decimal("12.34")),
        (DecimalType(9, 2), 1.5),
        (TimestampType(), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
        (TimestamptzType(), dt.datetime(2020, 1, 1)),
        (DateType(), dt.datetime(2020, 1, 1)),
        (FixedType(2), b"abc"),
        (UUIDType(), b"abc"),
        (StringType(), b"abc"),
        (UnknownType(), 1),
        (struct(optional(5, "x", IntegerType())), (1, 2)),
    ],
)
def test_a_constant_of_another_type_is_refused_while_compiling(
    batches: BatchType, kind: IcebergType, value: Any
) -> None:
    with pytest.raises(InvalidDataError, match="is not a value of the type"):
        batches.operations.evolve(Schema(), Schema(optional(2, "b", kind)), {2: value})


@every_batch_type
@pytest.mark.parametrize("parent", ["top", "struct", "list", "map"])
def test_a_missing_required_field_is_an_error_while_compiling(batches: BatchType, parent: str) -> None:
    old, new = optional(1, "a", IntegerType()), required(2, "new", IntegerType())
    nest: dict[str, Any] = {
        "struct": struct,
        "list": lambda *fields: list_of(struct(*fields)),
        "map": lambda *fields: map_to(struct(*fields)),
    }
    if parent == "top":
        source, target = Schema(old), Schema(old, new)
    else:
        source, target = (Schema(optional(9, "p", nest[parent](*fields))) for fields in ((old,), (old, new)))
    with pytest.raises(MissingRequiredFieldError, match="Missing required field: new"):
        batches.operations.evolve(source, target, {})
    batches.operations.evolve(source, target, {2: 5})


INNER_OLD = struct(optional(11, "x", IntegerType()))
INNER_NEW = struct(optional(11, "x", IntegerType()), optional(12, "y", StringType(), initial_default="d"))


@every_batch_type
def test_a_struct_of_which_only_absent_children_are_asked_keeps_its_nulls(batches: BatchType) -> None:
    target = struct(optional(12, "y", StringType(), initial_default="d"))
    column = pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())]))
    assert evolved_column(batches, INNER_OLD, target, column).to_pylist() == [{"y": "d"}, None]
    assert evolved_column(batches, INNER_OLD, struct(), column).to_pylist() == [{}, None]


LISTS = [[{"x": 1}, None], None, [], [{"x": None}, {"x": 2}], [{"x": 3}]]
MAPS = [[("a", {"x": 1}), ("b", None)], None, [], [("c", {"x": None})], [("d", {"x": 3})]]


def added(value: Any) -> Any:
    return value if value is None else {**value, "y": "d"}


@every_batch_type
@pytest.mark.parametrize("window", [(0, 5), (1, 4), (1, 2), (2, 1), (3, 2), (5, 0)], ids=str)
def test_children_are_added_inside_lists_without_disturbing_nulls_and_slices(
    batches: BatchType, window: tuple[int, int]
) -> None:
    kind = pa.struct([("x", pa.int32())])
    expected = [rows if rows is None else [added(row) for row in rows] for rows in LISTS]
    start, length = window
    for list_type in (pa.list_(kind), pa.large_list(kind), pa.list_view(kind), pa.large_list_view(kind)):
        column = pa.array(LISTS, list_type).slice(start, length)
        if not batches.holds(column):
            continue
        result = evolved_column(batches, list_of(INNER_OLD), list_of(INNER_NEW), column)
        assert result.to_pylist() == expected[start : start + length], list_type


@every_batch_type
@pytest.mark.parametrize("window", [(0, 5), (1, 4), (1, 2), (2, 1), (3, 2), (5, 0)], ids=str)
def test_children_are_added_inside_maps_without_disturbing_nulls_and_slices(
    batches: BatchType, window: tuple[int, int]
) -> None:
    start, length = window
    column = pa.array(MAPS, pa.map_(pa.string(), pa.struct([("x", pa.int32())]))).slice(start, length)
    expected = [pairs if pairs is None else [(key, added(value)) for key, value in pairs] for pairs in MAPS]
    result = evolved_column(batches, map_to(INNER_OLD), map_to(INNER_NEW), column)
    assert result.to_pylist() == expected[start : start + length]


@every_batch_type
def test_values_that_lie_between_the_lists_are_skipped(batches: BatchType) -> None:
    values = pa.array([1, 99, 2, 3], pa.int32())
    hidden = pa.ListArray.from_arrays(pa.array([0, 1, 2, 4], pa.int32()), values, mask=pa.array([False, True, False]))
    assert evolved_column(batches, list_of(IntegerType()), list_of(LongType()), hidden).to_pylist() == [
        [1],
        None,
        [2, 3],
    ]


def test_values_of_lists_may_stand_in_any_order() -> None:
    values = pa.array([1, 99, 2, 3], pa.int32())
    offsets, sizes = pa.array([2, 0, 0], pa.int32()), pa.array([2, 1, 0], pa.int32())
    views: Any = pa.ListViewArray
    shuffled = views.from_arrays(offsets, sizes, values)
    assert evolved_column(ARROW, list_of(IntegerType()), list_of(LongType()), shuffled).to_pylist() == [
        [2, 3],
        [1],
        [],
    ]


@every_batch_type
def test_a_slice_of_a_list_converts_only_its_own_values(batches: BatchType) -> None:
    days = pa.array([[2**31 - 1], [0], None], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
    column = evolved_column(batches, list_of(DateType()), list_of(TimestampNanoType()), days.slice(1))
    assert column.is_valid().to_pylist() == [True, False]


@every_batch_type
def test_fields_are_renamed_reordered_and_dropped_at_every_level(batches: BatchType) -> None:
    def nested(*fields: NestedField) -> Schema:
        return Schema(optional(1, "s", struct(*fields)), optional(2, "l", list_of(struct(*fields[:2]), 80)))

    source = nested(optional(3, "a", IntegerType()), optional(4, "b", StringType()), optional(5, "c", StringType()))
    target = Schema(
        optional(2, "list", list_of(struct(optional(4, "a", StringType()), optional(3, "b", LongType())), 80)),
        optional(1, "struct", struct(optional(5, "c", StringType()), optional(3, "z", IntegerType()))),
    )
    rows = [{"a": 1, "b": "p", "c": "q"}, None]
    pairs = pa.struct([("a", pa.int32()), ("b", pa.string())])
    columns = (
        pa.array(rows, pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.string())])),
        pa.array([[{"a": 1, "b": "p"}], None], pa.list_(pairs)),
    )
    assert evolve(batches, source, target, *columns).to_pydict() == {
        "list": [[{"a": "p", "b": 1}], None],
        "struct": [{"c": "q", "z": 1}, None],
    }


# Nulls where none may be.


@every_batch_type
@pytest.mark.parametrize(
    ("kind", "required_kind", "column"),
    [
        (IntegerType(), None, pa.array([1, None], pa.int32())),
        (
            struct(optional(2, "x", IntegerType())),
            struct(required(2, "x", IntegerType())),
            pa.array([{"x": 1}, {"x": None}]),
        ),
        (list_of(IntegerType()), list_of(IntegerType(), element_required=True), pa.array([[1], [None]])),
    ],
)
def test_a_null_in_a_column_that_became_required_is_refused(
    batches: BatchType, kind: IcebergType, required_kind: IcebergType | None, column: Any
) -> None:
    source = Schema(optional(1, "c", kind))
    target = Schema(optional(1, "c", required_kind)) if required_kind else Schema(required(1, "c", kind))
    with pytest.raises(InvalidDataError, match="is required, but 1 of its values are null"):
        evolve(batches, source, target, column)


def test_a_null_is_refused_even_if_arrow_was_told_that_there_is_none() -> None:
    source, target = Schema(optional(1, "c", IntegerType())), Schema(required(1, "c", IntegerType()))
    batch = pa.RecordBatch.from_arrays([pa.array([None], pa.int32())], schema=arrow_schema(target))
    with pytest.raises(InvalidDataError, match="column 'c' is required"):
        OPS.evolve(source, target, {})(batch)


# Dictionaries on request.


def test_dictionary_form_is_kept_for_the_columns_asked_for_and_only_for_them() -> None:
    ops = ArrowBatch(dictionary_ids=frozenset({1, 2, 3, 4}))
    schema = Schema(
        optional(1, "a", StringType()),
        optional(2, "b", BinaryType()),
        optional(3, "c", IntegerType()),
        optional(4, "d", StringType(), initial_default="x"),
        optional(5, "e", StringType()),
    )
    source = Schema(*(field for field in schema.fields if field.field_id != 4))
    encoded = pa.array(["p", None, "p"], pa.large_string()).dictionary_encode().slice(0)
    narrow = pa.DictionaryArray.from_arrays(pa.array([0, None, 0], pa.uint8()), pa.array([b"q"]))
    batch = batch_of(encoded, narrow, pa.array([1, 1, 1], pa.int32()), encoded)
    result = ops.evolve(source, schema, {})(batch)
    strings, binaries = pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.binary())
    assert result.schema.types == [strings, binaries, pa.int32(), strings, pa.string()]
    assert result.schema.equals(arrow_schema(schema, frozenset({1, 2, 3, 4})), check_metadata=True)
    assert result.to_pydict() == {
        "a": ["p", None, "p"],
        "b": [b"q", None, b"q"],
        "c": [1, 1, 1],
        "d": ["x"] * 3,
        "e": ["p", None, "p"],
    }
    assert ops.evolve(schema, schema, {})(result) is result
    plain = ops.evolve(source, source, {})(batch_of(pa.array(["p"]), pa.array([b"q"]), pa.array([1]), pa.array(["r"])))
    assert plain.column(0).type == strings


def test_an_absent_column_in_dictionary_form_may_be_null() -> None:
    ops = ArrowBatch(dictionary_ids=frozenset({1}))
    result = ops.evolve(Schema(), Schema(optional(1, "a", StringType())), {})(batch_of(pa.array([1, 2])).select([]))
    assert result.column(0).type == pa.dictionary(pa.int32(), pa.string())
    assert result.column(0).to_pylist() == [None, None]
