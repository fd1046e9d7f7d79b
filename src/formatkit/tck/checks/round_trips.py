"""What was written is what is read back: every value and every null, of every type."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UnknownType,
)

from formatkit.contract import DEFAULT_BATCH_ROWS, Capability, ReadOptions, Variant, VariantType, WriteOptions
from formatkit.errors import InvalidDataError, UnsupportedError
from formatkit.io import MemorySink
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import (
    BEFORE_1970,
    DECIMALS,
    EMPTY_VALUES,
    MANY_CHUNKS,
    NAN_AND_ZEROS,
    NANOSECONDS,
    NESTED,
    NULLS,
    ODD_NAMES,
    ONE_ROW,
    PRIMITIVES,
    WIDE,
    DataSet,
    numbered,
)
from formatkit.tck.histories import schemas
from formatkit.tck.kits import FormatKit
from formatkit.tck.strategies import rows

_LONG = 1 << 20


@check("W1", "J01", "J02", "J03", "J10", layer=Layer.FORMAT)
def every_primitive_type_round_trips(kit: FormatKit[Any]) -> None:
    _round_trips(kit, PRIMITIVES)


@check("W1", "J01", "J02", "J03", "J10", layer=Layer.FORMAT)
def required_columns_of_every_primitive_type_round_trip(kit: FormatKit[Any]) -> None:
    required = [field.model_copy(update={"required": True}) for field in PRIMITIVES.schema.fields]
    full = [row for row in PRIMITIVES.rows if None not in row.values()]
    _round_trips(kit, DataSet("required primitives", Schema(*required), full))


@check("W1", "J01", "J02", "J03", "J10", layer=Layer.FORMAT)
def structs_lists_and_maps_round_trip(kit: FormatKit[Any]) -> None:
    _round_trips(kit, NESTED)


@check("W1", "X27", layer=Layer.FORMAT)
def null_empty_and_full_of_nulls_stay_apart(kit: FormatKit[Any]) -> None:
    _round_trips(kit, EMPTY_VALUES)
    _round_trips(kit, _hollow())


@check("W1", layer=Layer.FORMAT)
def nulls_at_either_end_of_a_file_round_trip(kit: FormatKit[Any]) -> None:
    _round_trips(kit, NULLS)


@check("W1", "X39", layer=Layer.FORMAT)
def columns_of_any_type_without_a_value_round_trip(kit: FormatKit[Any]) -> None:
    for source in (PRIMITIVES, NESTED):
        first, *others = (field.field_id for field in source.schema.fields)
        empty = [{first: row[first], **dict.fromkeys(others)} for row in source.rows]
        _round_trips(kit, DataSet(f"{source.name} that are null", source.schema, empty))


@check("W1", "X39", layer=Layer.FORMAT)
def texts_and_bytes_of_a_megabyte_round_trip(kit: FormatKit[Any]) -> None:
    pattern = bytes(range(256))
    _round_trips(
        kit,
        numbered(
            "long values",
            text=(StringType(), ["", "ä" * _LONG, "\0" * 3, None]),
            bytes=(BinaryType(), [pattern * (_LONG // len(pattern)), b"", b"\0" * 3, None]),
        ),
    )


@check("W1", "J01", "X28", layer=Layer.FORMAT)
def decimals_of_every_width_keep_their_digits(kit: FormatKit[Any]) -> None:
    _round_trips(kit, DECIMALS)


@check("W1", layer=Layer.FORMAT)
def nan_infinities_and_both_zeros_round_trip(kit: FormatKit[Any]) -> None:
    _round_trips(kit, NAN_AND_ZEROS)


@check("W1", "X29", layer=Layer.FORMAT)
def moments_before_1970_keep_parts_of_a_second(kit: FormatKit[Any]) -> None:
    _round_trips(kit, BEFORE_1970)


@check("W1", "X29", layer=Layer.FORMAT)
def moments_at_the_ends_of_64_bits_are_kept_or_refused(kit: FormatKit[Any]) -> None:
    """Microseconds that fill 64 bits are stored as they are, or refused; never changed."""
    for kind in (TimestampType(), TimestamptzType()):
        for moment in (-(2**63), 2**63 - 1, 1 - 2**62):
            try:
                _round_trips(kit, numbered(f"{kind} of {moment}", at=(kind, [moment, None])))
            except InvalidDataError:
                continue


@check(
    "W1",
    "J01",
    "X29",
    "X30",
    layer=Layer.FORMAT,
    when=Capability.NANOSECONDS,
    twin="nanoseconds_that_are_not_declared_are_refused",
)
def nanoseconds_round_trip(kit: FormatKit[Any]) -> None:
    _round_trips(kit, NANOSECONDS)


@check("W1", "X70", layer=Layer.FORMAT, unless=Capability.NANOSECONDS)
def nanoseconds_that_are_not_declared_are_refused(kit: FormatKit[Any]) -> None:
    for field in NANOSECONDS.schema.fields[1:]:
        _is_refused(kit, field, str(field.field_type))


@check(
    "W1",
    "J01",
    "X43",
    layer=Layer.FORMAT,
    when=Capability.VARIANT,
    twin="variants_that_are_not_declared_are_refused",
)
def variants_round_trip_wherever_they_stand(kit: FormatKit[Any]) -> None:
    stored = kit.write(_VARIANTS.schema, _VARIANTS.rows)
    expect.equal_rows(kit.everything(stored), _VARIANTS.rows, "rows of variants")


@check("W1", "X70", layer=Layer.FORMAT, unless=Capability.VARIANT)
def variants_that_are_not_declared_are_refused(kit: FormatKit[Any]) -> None:
    for field in _VARIANTS.schema.fields[1:]:
        _is_refused(kit, field, "variant")


@check("W1", "X36", layer=Layer.FORMAT)
def columns_with_odd_names_round_trip(kit: FormatKit[Any]) -> None:
    _round_trips(kit, ODD_NAMES)


@check("W1", "X36", layer=Layer.FORMAT)
def three_hundred_columns_round_trip(kit: FormatKit[Any]) -> None:
    _round_trips(kit, WIDE)


@check("W1", layer=Layer.FORMAT)
def rows_come_back_in_the_order_in_which_they_were_written(kit: FormatKit[Any]) -> None:
    _round_trips(kit, ONE_ROW)
    _round_trips(kit, MANY_CHUNKS)


@check("W6", "X35", layer=Layer.FORMAT)
def unknown_columns_are_not_stored_and_their_neighbours_are(kit: FormatKit[Any]) -> None:
    stored = kit.write(_WITH_UNKNOWN, [_with_nulls(row) for row in _KNOWN.rows])
    with kit.opened(stored.data) as file:
        names = [field.name for field in file.schema.fields]
        expect.equal(len(names), len(_KNOWN.schema.fields), f"number of stored columns, which are {names}")
    found = kit.everything(replace(stored, schema=_KNOWN.schema, rows=_KNOWN.rows))
    expect.equal_rows(found, _KNOWN.rows, "rows beside columns of type unknown")


@check("W6", "X38", layer=Layer.FORMAT)
def rows_without_a_stored_column_are_counted_or_refused(kit: FormatKit[Any]) -> None:
    """Where every column is unknown there is nothing to store, but rows are still rows, or refused as unsupported."""
    try:
        stored = kit.write(Schema(NestedField(1, "nothing", UnknownType())), [{1: None}] * 5)
    except UnsupportedError:
        return
    with kit.opened(stored.data) as file:
        expect.equal(len(kit.read(file, ReadOptions(projection=Schema()))), 5, "number of rows without a column")


@check("W1", "R7", layer=Layer.FORMAT)
def a_batch_larger_than_those_that_are_read_round_trips(kit: FormatKit[Any]) -> None:
    rows = [{1: number} for number in range(DEFAULT_BATCH_ROWS + 1000)]
    stored = replace(kit, small_chunks={}).write(Schema(NestedField(1, "id", LongType())), rows, batch_rows=len(rows))
    expect.equal_rows(kit.everything(stored, batch_rows=DEFAULT_BATCH_ROWS), rows, "rows of one large batch")


@check("W1", layer=Layer.FORMAT)
def random_rows_of_random_schemas_round_trip(kit: FormatKit[Any]) -> None:
    @kit.random(st.data(), st.integers(1, 13))
    def round_trips(data: st.DataObject, batch_rows: int) -> None:
        schema = data.draw(schemas(nanoseconds=kit.nanoseconds), label="schema")
        stored = kit.write(schema, data.draw(rows(schema, min_size=1), label="rows"), batch_rows=batch_rows)
        expect.equal_rows(kit.everything(stored), stored.rows)


def _round_trips(kit: FormatKit[Any], data: DataSet) -> None:
    stored = kit.write(data.schema, data.rows)
    expect.equal(stored.result.row_count, len(data.rows), f"row count of {data.name}")
    expect.equal_rows(kit.everything(stored), data.rows, f"rows of {data.name}")


def _is_refused(kit: FormatKit[Any], field: NestedField, word: str) -> None:
    """The writer says no before anything is written, and says to what."""
    try:
        kit.plugin.writer().open(MemorySink(), WriteOptions(schema=Schema(field))).abort()
    except UnsupportedError as error:
        expect.that(word in str(error), f"the refusal does not name the type {word}: {error}")
    else:
        raise expect.CheckFailedError(f"a column of type {field.field_type} is written although it is not declared")


def _hollow() -> DataSet:
    """Lists, maps and structs around one another: null, empty, or holding a null, at each level."""

    def pair(first_id: int) -> StructType:
        inner = ListType(first_id + 2, LongType(), element_required=False)
        return StructType(NestedField(first_id, "n", IntegerType()), NestedField(first_id + 1, "list", inner))

    texts = ListType(32, ListType(33, StringType(), element_required=False), element_required=False)
    schema = Schema(
        NestedField(1, "structs", ListType(10, pair(11), element_required=False)),
        NestedField(2, "map", MapType(20, StringType(), 21, pair(22), value_required=False)),
        NestedField(3, "struct", StructType(NestedField(31, "lists", texts))),
    )
    hollow: list[Any] = [(None, None), (None, []), (None, [None]), (1, [1])]
    structs: list[Any] = [None, [], [None], [{11: n, 12: inner} for n, inner in hollow], [None, {11: 1, 12: []}]]
    maps: list[Any] = [None, [], [("k", None)], [(str(i), {22: n, 23: inner}) for i, (n, inner) in enumerate(hollow)]]
    lists: list[Any] = [None, {31: None}, {31: []}, {31: [None]}, {31: [[]]}, {31: [[None], None, [], ["a"]]}]
    most = max(map(len, (structs, maps, lists)))
    return DataSet(
        "null, empty and full of nulls",
        schema,
        [{1: structs[i % len(structs)], 2: maps[i % len(maps)], 3: lists[i % len(lists)]} for i in range(most)],
    )


_VARIANTS = DataSet(
    "variants",
    Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "variant", VariantType()),
        NestedField(3, "list", ListType(31, VariantType(), element_required=False)),
        NestedField(4, "struct", StructType(NestedField(41, "variant", VariantType()))),
    ),
    [
        {1: 0, 2: None, 3: None, 4: None},
        {1: 1, 2: Variant.of(None), 3: [None, Variant.of(None)], 4: {41: None}},
        {1: 2, 2: Variant.of({}), 3: [], 4: {41: Variant.of({"a": {"b": [1, None, "c"]}, "": []})}},
        {1: 3, 2: Variant.of(Decimal(10) ** 37 + 1), 3: [Variant.of([[], {}])], 4: {41: Variant.of(b"\0\xff")}},
        {1: 4, 2: Variant.of("a" * 70), 3: [Variant.of(0.5), Variant.of(True)], 4: {41: Variant.of(-(2**63))}},
    ],
)

_KNOWN = DataSet(
    "what is known",
    Schema(
        NestedField(2, "number", LongType()),
        NestedField(4, "struct", StructType(NestedField(42, "a", IntegerType()), NestedField(44, "b", StringType()))),
        NestedField(5, "text", StringType()),
    ),
    [{2: 1, 4: {42: 2, 44: "b"}, 5: "c"}, {2: None, 4: None, 5: ""}, {2: 3, 4: {42: None, 44: ""}, 5: None}],
)
_WITH_UNKNOWN = Schema(
    NestedField(1, "first", UnknownType()),
    NestedField(2, "number", LongType()),
    NestedField(3, "between", UnknownType()),
    NestedField(
        4,
        "struct",
        StructType(
            NestedField(41, "first", UnknownType()),
            NestedField(42, "a", IntegerType()),
            NestedField(43, "between", UnknownType()),
            NestedField(44, "b", StringType()),
        ),
    ),
    NestedField(5, "text", StringType()),
    NestedField(6, "last", UnknownType()),
)


def _with_nulls(row: dict[int, Any]) -> dict[int, Any]:
    struct = row[4] if row[4] is None else {41: None, 43: None, **row[4]}
    return {1: None, 3: None, 6: None, **row, 4: struct}
