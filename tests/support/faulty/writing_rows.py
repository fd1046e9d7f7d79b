"""Writers that change what they store."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Context
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
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
)

from formatkit.contract import Capability, Variant, VariantType, WriteOptions
from formatkit.errors import InvalidDataError, UnsupportedError
from formatkit.tck import Subject
from formatkit.tck.literals import internal
from formatkit.tck.naive import Row
from formatkit.tck.rows import from_arrow, to_arrow
from support.faults import fault
from support.faulty.writing import (
    Writer,
    changing_batches,
    changing_rows,
    changing_values,
    retyped,
    undeclared,
    written_by,
)

_DIGITS = Context(prec=76)
_NANOS = (TimestampNanoType, TimestamptzNanoType)
_MICROS = (TimestampType, TimestamptzType)


@fault("every_primitive_type_round_trips")
def times_lose_their_parts_of_a_second() -> Subject[Any]:
    return changing_values(lambda _, micros: micros and micros // 1_000_000 * 1_000_000, only=[TimeType])


@fault("every_primitive_type_round_trips")
def long_texts_are_cut() -> Subject[Any]:
    return changing_values(lambda _, text: text and text[:64], only=[StringType])


@fault("required_columns_of_every_primitive_type_round_trip")
def fixed_values_end_at_their_first_zero() -> Subject[Any]:
    return changing_values(lambda _, value: value and value.rstrip(b"\0").ljust(len(value), b"x"), only=[FixedType])


@fault("structs_lists_and_maps_round_trip")
def structs_of_nulls_become_null() -> Subject[Any]:
    return changing_values(lambda _, value: None if value == {43: None, 44: None} else value, only=[StructType])


@fault("structs_lists_and_maps_round_trip")
def maps_keep_their_first_entry_only() -> Subject[Any]:
    return changing_values(lambda _, pairs: pairs and pairs[:1], only=[MapType])


@fault("null_empty_and_full_of_nulls_stay_apart")
def null_lists_become_empty() -> Subject[Any]:
    return changing_values(lambda _, value: [] if value is None else value, only=[ListType])


@fault("null_empty_and_full_of_nulls_stay_apart")
def empty_maps_become_null() -> Subject[Any]:
    return changing_values(lambda _, value: value or None, only=[MapType])


@fault("nulls_at_either_end_of_a_file_round_trip")
def a_null_takes_the_value_of_the_row_before() -> Subject[Any]:
    def filled(_: Schema, rows: list[Row]) -> list[Row]:
        found: list[Row] = []
        for row in rows:
            before = found[-1] if found else {}
            found.append({key: before.get(key) if value is None else value for key, value in row.items()})
        return found

    return changing_rows(filled)


@fault("columns_of_any_type_without_a_value_round_trip")
def columns_of_nulls_are_filled_with_zeros() -> Subject[Any]:
    def filled(schema: Schema, rows: list[Row]) -> list[Row]:
        empty = [
            field.field_id
            for field in schema.fields
            if isinstance(field.field_type, DoubleType) and all(row[field.field_id] is None for row in rows)
        ]
        return [{**row, **dict.fromkeys(empty, 0.0)} for row in rows]

    return changing_rows(filled)


@fault("texts_and_bytes_of_a_megabyte_round_trip")
def bytes_are_cut_at_65535() -> Subject[Any]:
    return changing_values(lambda _, value: value and value[:65_535], only=[BinaryType])


@fault("decimals_of_every_width_keep_their_digits")
def decimals_go_through_floats() -> Subject[Any]:
    return changing_values(
        lambda kind, value: value if value is None or abs(value) < 2**60 else internal(f"{float(value / 2):.9e}", kind),
        only=[DecimalType],
    )


@fault("decimals_of_every_width_keep_their_digits")
def decimals_have_another_scale() -> Subject[Any]:
    return changing_values(
        lambda kind, value: value and internal(value.scaleb(-1, context=_DIGITS), kind), only=[DecimalType]
    )


@fault("nan_infinities_and_both_zeros_round_trip")
def negative_zero_loses_its_sign() -> Subject[Any]:
    return changing_values(lambda _, value: value + 0.0 if value == 0 else value, only=[FloatType, DoubleType])


@fault("nan_infinities_and_both_zeros_round_trip")
def nan_becomes_null() -> Subject[Any]:
    return changing_values(
        lambda _, value: None if value is not None and math.isnan(value) else value, only=[FloatType, DoubleType]
    )


@fault("moments_before_1970_keep_parts_of_a_second")
def seconds_before_1970_are_rounded_towards_zero() -> Subject[Any]:
    return changing_values(
        lambda _, micros: -(-micros // 1_000_000 * 1_000_000) if micros and micros < 0 else micros, only=_MICROS
    )


@fault("moments_at_the_ends_of_64_bits_are_kept_or_refused")
def moments_are_moved_into_the_range_of_nanoseconds() -> Subject[Any]:
    most = 2**63 // 1000
    return changing_values(lambda _, micros: micros and max(-most, min(most, micros)), only=_MICROS)


@fault("nanoseconds_round_trip")
def nanoseconds_become_microseconds() -> Subject[Any]:
    return changing_values(lambda _, nanos: nanos and nanos // 1000 * 1000, only=_NANOS)


@fault("nanoseconds_that_are_not_declared_are_refused")
def nanoseconds_are_stored_though_not_declared() -> Subject[Any]:
    return undeclared(Capability.NANOSECONDS)


@fault("nanoseconds_that_are_not_declared_are_refused")
def nanoseconds_are_refused_without_being_named() -> Subject[Any]:
    class Terse(Writer):
        def __init__(self, plugin: Any, sink: Any, options: Any) -> None:
            if any(type(field.field_type) in _NANOS for field in options.schema.fields):
                raise UnsupportedError("no")
            super().__init__(plugin, sink, options)

    return written_by(Terse, undeclared(Capability.NANOSECONDS).plugin)


@fault("variants_round_trip_wherever_they_stand")
def a_variant_null_becomes_null() -> Subject[Any]:
    nothing = Variant.of(None)
    return changing_values(lambda _, value: None if value == nothing else value, only=[VariantType])


@fault("variants_that_are_not_declared_are_refused")
def variants_are_stored_though_not_declared() -> Subject[Any]:
    return undeclared(Capability.VARIANT)


@fault("columns_with_odd_names_round_trip")
def names_that_differ_by_case_are_one_column() -> Subject[Any]:
    def merged(schema: Schema, rows: list[Row]) -> list[Row]:
        first: dict[str, int] = {}
        for field in schema.fields:
            first.setdefault(field.name.lower(), field.field_id)
        ids = {field.field_id: first[field.name.lower()] for field in schema.fields}
        return [{key: row[ids[key]] for key in row} for row in rows]

    return changing_rows(merged)


@fault("three_hundred_columns_round_trip")
def columns_after_the_first_256_are_null() -> Subject[Any]:
    return changing_rows(
        lambda _, rows: [
            {key: value if place < 256 else None for place, (key, value) in enumerate(row.items())} for row in rows
        ]
    )


@fault("rows_come_back_in_the_order_in_which_they_were_written")
def each_batch_is_written_backwards() -> Subject[Any]:
    return changing_rows(lambda _, rows: rows[::-1])


@fault("unknown_columns_are_not_stored_and_their_neighbours_are")
def unknown_columns_are_stored_as_text() -> Subject[Any]:
    storing = retyped(
        lambda field: (
            NestedField(field.field_id, field.name, StringType())
            if isinstance(field.field_type, UnknownType)
            else field
        )
    )

    class Storing(storing):  # type: ignore[misc, valid-type]
        def write(self, batch: pa.RecordBatch) -> None:
            schema = self.options.schema
            super().write(to_arrow(schema, from_arrow(schema, batch), ids=False).combine_chunks().to_batches()[0])

    return written_by(Storing)


@fault("rows_without_a_stored_column_are_counted_or_refused")
def rows_without_columns_are_lost() -> Subject[Any]:
    class Losing(Writer):
        def __init__(self, plugin: Any, sink: Any, options: WriteOptions) -> None:
            stored = [field for field in options.schema.fields if not isinstance(field.field_type, UnknownType)]
            kept = stored or [NestedField(9, "placeholder", LongType())]
            super().__init__(plugin, sink, replace(options, schema=Schema(*kept)))

        def write(self, batch: pa.RecordBatch) -> None:
            super().write(pa.RecordBatch.from_arrays([pa.array([0])], names=["placeholder"]))

    return written_by(Losing)


@fault("a_batch_larger_than_those_that_are_read_round_trips")
def rows_after_the_first_thirty_thousand_of_a_batch_are_lost() -> Subject[Any]:
    return changing_batches(lambda _, batch: batch.slice(0, 30_000))


@fault("random_rows_of_random_schemas_round_trip")
def the_last_row_of_each_batch_is_lost() -> Subject[Any]:
    return changing_batches(lambda _, batch: batch.slice(0, max(1, batch.num_rows - 1)))


@fault("batches_in_any_physical_form_are_written_alike")
def views_of_texts_are_taken_for_nulls() -> Subject[Any]:
    return _changing_columns(
        lambda column: pa.nulls(len(column), pa.string()) if pa.types.is_string_view(column.type) else column
    )


@fault("batches_in_any_physical_form_are_written_alike")
def only_the_dictionary_of_a_column_is_written() -> Subject[Any]:
    return _changing_columns(
        lambda column: column.dictionary.slice(1, len(column)) if isinstance(column, pa.DictionaryArray) else column
    )


@fault("batches_of_one_file_may_differ_in_their_form")
def all_batches_must_look_like_the_first() -> Subject[Any]:
    class Strict(Writer):
        first: pa.Schema | None = None

        def write(self, batch: pa.RecordBatch) -> None:
            self.first = self.first or batch.schema
            if batch.schema != self.first:
                raise InvalidDataError("the batch has another schema than the first")
            super().write(batch)

    return written_by(Strict)


@fault("columns_belong_to_fields_by_position_and_not_by_name")
def columns_are_matched_by_name() -> Subject[Any]:
    return changing_batches(
        lambda schema, batch: (
            batch.select([field.name for field in schema.fields])
            if {field.name for field in schema.fields} == set(batch.schema.names)
            else pa.RecordBatch.from_arrays([batch["a"], batch["b"], batch["other"]], names=["a", "b", "s"])
        )
    )


@fault("slices_from_the_middle_of_nested_columns_are_written_alike")
def nulls_of_a_slice_of_structs_are_those_of_the_first_rows() -> Subject[Any]:
    def misplaced(column: Any) -> Any:
        if not isinstance(column, pa.StructArray) or not column.offset:
            return column
        children = [column.field(i) for i in range(column.type.num_fields)]
        return pa.Array.from_buffers(column.type, len(column), [column.buffers()[0]], children=children)

    return _changing_columns(misplaced)


@fault("tables_of_uneven_chunks_are_written_in_order")
def batches_of_one_row_are_lost() -> Subject[Any]:
    return changing_batches(lambda _, batch: batch if batch.num_rows > 1 else batch.slice(0, 0))


@fault("lists_in_any_layout_are_written_alike")
def null_lists_become_lists_of_nulls() -> Subject[Any]:
    return changing_values(lambda _, value: [None, None] if value is None else value, only=[ListType])


@fault("a_null_where_a_value_is_required_is_refused")
def nulls_are_stored_where_a_value_is_required() -> Subject[Any]:
    return written_by(retyped(lambda field: NestedField(field.field_id, field.name, field.field_type, required=False)))


@fault("what_is_required_below_a_null_is_not_demanded")
def null_structs_with_required_fields_are_refused() -> Subject[Any]:
    def refused(schema: Schema, rows: list[Row]) -> list[Row]:
        for field in schema.fields:
            kind = field.field_type
            demands = isinstance(kind, StructType) and any(child.required for child in kind.fields)
            if demands and any(row[field.field_id] is None for row in rows):
                raise InvalidDataError(f"column {field.name} has required fields and is null")
        return rows

    return changing_rows(refused)


@fault("optional_columns_that_the_data_lacks_are_null")
def null_maps_become_empty() -> Subject[Any]:
    return changing_values(lambda _, value: [] if value is None else value, only=[MapType])


@fault("small_and_unsigned_integers_are_stored_as_they_are")
def longs_wrap_at_32_bits() -> Subject[Any]:
    return changing_values(
        lambda _, value: value if value is None else (value + 2**31) % 2**32 - 2**31, only=[LongType, IntegerType]
    )


def _changing_columns(change: Any) -> Subject[Any]:
    def changed(_: Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([change(column) for column in batch.columns], names=batch.schema.names)

    return changing_batches(changed)
