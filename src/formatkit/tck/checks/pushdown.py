"""Predicates that a reader is given: which rows may be left out, and what is honestly left over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from pyiceberg.expressions import (
    AlwaysTrue,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    Reference,
)
from pyiceberg.expressions.parser import parse
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    LongType,
    StringType,
    TimestampNanoType,
    UUIDType,
)

from formatkit.contract import Capability, FormatFile, ReadOptions
from formatkit.kernel import bind
from formatkit.tck import expect, naive
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import BEFORE_1970, MANY_CHUNKS, NAN_AND_ZEROS, NESTED, NULLS, DataSet, numbered
from formatkit.tck.histories import schemas
from formatkit.tck.kits import FormatKit, Stored
from formatkit.tck.literals import unscaled
from formatkit.tck.strategies import predicates, rows

WHOLE_PREDICATE = "a_reader_that_filters_no_rows_returns_the_whole_predicate"
EVERY_ROW = "a_reader_that_skips_no_chunks_returns_every_chunk"


@check("R4", "J14", layer=Layer.FORMAT)
def a_filter_gives_exactly_the_rows_that_match(kit: FormatKit[Any]) -> None:
    compare(
        kit,
        MANY_CHUNKS,
        "id < 0",
        "id >= 59",
        "id > 10 and id < 14",
        "id = 31 or score = 0.25",
        "name = 'name 1' and not (id > 20)",
        "name like 'name 3%'",
        "name is null",
    )


@check("R4", "X09", layer=Layer.FORMAT)
def null_rows_are_kept_where_a_value_is_excluded(kit: FormatKit[Any]) -> None:
    questions = [
        *("int != 7", "text != 'b'", "double != 0.5", "date != '2021-06-01'", "never != 1"),
        *("int not in (7, 8)", "text not in ('b', 'c')", "text not like 'b%'", "double is not nan", "not (int = 7)"),
    ]
    compare(kit, NULLS, *questions, ask(NotEqualTo, "bytes", b"\x80"))


@check("R4", "X10", layer=Layer.FORMAT)
def null_and_nan_rows_fail_comparisons(kit: FormatKit[Any]) -> None:
    compare(kit, NULLS, "int < 8", "text >= 'a'", "double <= 0.5", "date > '1970-01-01'", "never < 1", "text like '%'")
    compare(kit, NAN_AND_ZEROS, "double < 1000.0", "double >= -1000.0", "float <= 1000.0", "float > -1000.0")


@check("R4", "X09", layer=Layer.FORMAT)
def null_tests_find_the_nulls_of_every_chunk(kit: FormatKit[Any]) -> None:
    compare(kit, NULLS, *(f"{name} is null" for name in ("int", "text", "bytes", "never")))
    compare(kit, NULLS, *(f"{name} is not null" for name in ("int", "text", "bytes", "never")))


@check("R4", "X11", layer=Layer.FORMAT)
def nan_hides_no_row_beside_it(kit: FormatKit[Any]) -> None:
    tests = [
        f"{column} {test}" for column in ("double", "float") for test in ("is nan", "is not nan", "> 0.5", "!= 2.0")
    ]
    compare(kit, NAN_AND_ZEROS, *tests, "double < -1.0", "double not in (0.0, 2.0)", "not (double <= 1.0)")


@check("R4", "X23", layer=Layer.FORMAT)
def zeros_of_either_sign_are_equal(kit: FormatKit[Any]) -> None:
    for zeros in ([-0.0] * 4, [0.0] * 4, [0.0, -0.0, 1.0, -0.0]):
        data = numbered("zeros", x=(DoubleType(), zeros))
        for zero in (0.0, -0.0):
            operators = (EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual)
            compare(kit, data, *(ask(operator, "x", zero) for operator in operators), ask(In, "x", {zero, 7.0}))


@check("R4", "X17", layer=Layer.FORMAT)
def a_filter_finds_its_leaf_among_nested_columns(kit: FormatKit[Any]) -> None:
    compare(
        kit,
        NESTED,
        "after = 13",
        "outer.n = 4",
        "outer.n != 4",
        "outer.point.x is null",
        "outer.point.x = 0.5 and after != 12",
        "outer is null",
        "points is not null",
        "by_name is null or outer.n > 4",
    )


@check("R4", "X19", layer=Layer.FORMAT)
def the_ids_of_the_projection_say_which_column_a_predicate_means(kit: FormatKit[Any]) -> None:
    data = numbered("two columns", a=(LongType(), [1, 2, 3, 4, 5, 6]), b=(LongType(), [6, 5, 4, 3, 2, 1]))
    stored = kit.write(data.schema, data.rows)
    with kit.opened(stored.data) as file:
        ordinal, a, b = file.schema.fields
        swapped = [ordinal, a.model_copy(update={"field_id": 1003}), b.model_copy(update={"field_id": 1002})]
        projection = type(file.schema)(*swapped)
        found = kit.read(file, ReadOptions(projection=projection, predicate=bind(projection, "b < 3")), stored.schema)
    expect.equal_rows(found, [row for row in stored.rows if row[3] < 3], "where b < 3")


@check(
    "R4", "X20", layer=Layer.FORMAT, when=Capability.NANOSECONDS, twin="nanoseconds_that_are_not_declared_are_refused"
)
def nanoseconds_are_compared_to_the_last_digit(kit: FormatKit[Any]) -> None:
    around = [1_000_000_999, 1_000_001_000, 1_000_001_001, -1, 0, 1, 999, 1000, None]
    data = numbered("nanoseconds", ns=(TimestampNanoType(), around))
    for text in ("1970-01-01T00:00:01.000001", "1970-01-01T00:00:01.000001001", "1969-12-31T23:59:59.999999999"):
        compare(kit, data, *(f"ns {operator} '{text}'" for operator in ("=", "!=", "<", "<=", ">", ">=")))


@check("R4", "X21", layer=Layer.FORMAT)
def values_that_are_too_long_for_statistics_are_found(kit: FormatKit[Any]) -> None:
    texts = ["a" * 5000, "a" * 5000 + "b", "\U0010ffff" * 40, None, "a", "", "a" * 70, "\uffff" * 70, None]
    stored_bytes = [None if text is None else text.encode() for text in texts]
    data = numbered("long values", text=(StringType(), texts), bytes=(BinaryType(), stored_bytes))
    for text in ("a" * 5000, "a" * 64, "\U0010ffff" * 40, "\uffff" * 64):
        compare(kit, data, *(ask(operator, "text", text) for operator in (EqualTo, GreaterThan, LessThanOrEqual)))
    compare(
        kit, data, ask(EqualTo, "bytes", b"a" * 5000), ask(GreaterThan, "bytes", b"\xf4"), ask(LessThan, "bytes", b"a")
    )


@check("R4", "X21", layer=Layer.FORMAT)
def chunks_that_have_no_bounds_are_read(kit: FormatKit[Any]) -> None:
    compare(kit, NULLS, "never = 1 or int = 7", "never is null and int = 7", "never > 1 or text = 'b'")
    compare(kit, NAN_AND_ZEROS, "double is nan or double > 1.5", "float is nan and id > 7")


@check("R4", "X22", layer=Layer.FORMAT)
def filters_see_through_every_encoding(kit: FormatKit[Any]) -> None:
    count = 150
    data = numbered(
        "repeated, then unique, then null",
        text=(StringType(), ["few"] * count + [f"unique {number:05}" for number in range(count)] + [None] * count),
        number=(LongType(), [7] * count + [number * 2**40 for number in range(count)] + [None] * count),
        fixed=(FixedType(2), [b"ab"] * count + [number.to_bytes(2) for number in range(count)] + [None] * count),
    )
    large = replace(kit, small_chunks={})
    compare(large, data, "text = 'few'", "text = 'unique 00149'", "text != 'few'", batch_rows=225)
    compare(large, data, "number = 7", f"number > {147 * 2**40}", ask(EqualTo, "fixed", b"ab"), batch_rows=225)


@check("R4", "X24", layer=Layer.FORMAT)
def bytes_are_compared_without_sign(kit: FormatKit[Any]) -> None:
    low, high = b"\x7f" + b"\xff" * 15, b"\x80" + b"\x00" * 15
    values = [low, high, None, b"\x00" * 16, b"\xff" * 16, high]
    data = numbered(
        "bytes",
        uuid=(UUIDType(), [value and UUID(bytes=value) for value in values]),
        fixed=(FixedType(16), values),
        bytes=(BinaryType(), values),
    )
    operators = (EqualTo, LessThan, LessThanOrEqual, GreaterThan)
    for edge in (low, high):
        compare(kit, data, *(ask(operator, "uuid", UUID(bytes=edge)) for operator in operators))
        compare(kit, data, *(ask(operator, name, edge) for operator in operators for name in ("fixed", "bytes")))
    compare(kit, data, ask(In, "uuid", {UUID(bytes=low), UUID(int=0)}), ask(NotIn, "uuid", {UUID(bytes=high)}))


@check("R4", "X66", layer=Layer.FORMAT)
def days_and_moments_before_1970_are_compared_rightly(kit: FormatKit[Any]) -> None:
    compare(kit, BEFORE_1970, "date < '1970-01-01'", "date = '1969-12-31'", "date >= '1900-02-28'")
    compare(kit, BEFORE_1970, "ts < '1970-01-01T00:00:00'", "ts = '1969-12-31T23:59:59.999999'")
    compare(kit, BEFORE_1970, "ts >= '1900-01-01T00:00:00.5'", "tz <= '1883-11-18T12:00:00.000001+00:00'")


@check("R4", "X28", layer=Layer.FORMAT)
def decimals_of_any_width_are_compared_rightly(kit: FormatKit[Any]) -> None:
    for precision in (9, 18, 38):
        most, least = unscaled(10**precision - 1, 2), unscaled(1 - 10**precision, 2)
        values = [Decimal("1.50"), least, None, most, Decimal("-1.50"), Decimal("0.00")]
        data = numbered("decimals", x=(DecimalType(precision, 2), values))
        compare(kit, data, "x < 0.00", "x != 1.50", ask(EqualTo, "x", most), ask(LessThan, "x", most))


@check("R4", "X26", layer=Layer.FORMAT)
def long_lists_of_values_and_deep_nesting_are_answered(kit: FormatKit[Any]) -> None:
    few = replace(MANY_CHUNKS, rows=MANY_CHUNKS.rows[48:])
    for operator, count in ((In, 1), (In, 200), (NotIn, 201), (In, 10_000)):
        compare(kit, few, ask(operator, "id", {50 + 3 * number for number in range(count)}))
    compare(
        kit,
        MANY_CHUNKS,
        "not (id < 50 or not (name = 'name 1' or (name = 'name 2' and not (score > 13.5))))",
        "not (not (id in (1, 2, 3)) and not (name is null and id > 40))",
    )


@check("R4", "X12", layer=Layer.FORMAT)
def any_predicate_with_its_residual_gives_the_exact_answer(kit: FormatKit[Any]) -> None:
    @kit.random(st.data(), st.integers(1, 13))
    def holds(data: st.DataObject, batch_rows: int) -> None:
        schema = data.draw(schemas(nanoseconds=kit.nanoseconds), label="schema")
        stored = kit.write(schema, data.draw(rows(schema, min_size=1), label="rows"))
        for where in data.draw(st.lists(predicates(schema), min_size=1, max_size=4), label="predicates"):
            found = kit.everything(stored, where, batch_rows=batch_rows)
            expect.equal_rows(found, matching(stored, where), f"where {where}")


@check("R4", "J14", "X12", layer=Layer.FORMAT, when=Capability.SKIP_CHUNKS, twin=EVERY_ROW)
def chunks_that_cannot_match_are_not_returned(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file:
        for where in ("id < 0", "id >= 10000"):
            expect.equal(rows_returned(kit, file, where), 0, f"rows returned where {where}, residual aside")
        few = rows_returned(kit, file, "id >= 57")
    expect.that(few >= 3, f"3 rows match id >= 57, and {few} were returned")


@check("R4", "X12", "X70", layer=Layer.FORMAT, unless=Capability.SKIP_CHUNKS)
def a_reader_that_skips_no_chunks_returns_every_chunk(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    if Capability.FILTER_ROWS not in kit.plugin.capabilities:
        with kit.opened(stored.data) as file:
            expect.equal(rows_returned(kit, file, "id < 0"), len(stored.rows), "rows returned, residual aside")
    compare(kit, MANY_CHUNKS, "id < 0", "id >= 57")


@check("R4", "X12", layer=Layer.FORMAT, when=Capability.FILTER_ROWS, twin=WHOLE_PREDICATE)
def rows_that_fail_are_not_returned_where_nothing_is_left_over(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file:
        result = file.read(ReadOptions(projection=file.schema, predicate=bind(file.schema, "id = 31")))
        with result.batches as batches:
            found = sum(kit.batches.operations.num_rows(batch) for batch in batches)
    expect.equal(result.residual, AlwaysTrue(), "what is left of id = 31 for a reader that filters rows")
    expect.equal(found, 1, "rows where id = 31")


@check("R4", "X12", "X70", layer=Layer.FORMAT, unless=Capability.FILTER_ROWS)
def a_reader_that_filters_no_rows_returns_the_whole_predicate(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file:
        for text in ("id = 31", "name = 'name 2' or id > 55", "score != 1.25"):
            predicate = bind(file.schema, text)
            result = file.read(ReadOptions(projection=file.schema, predicate=predicate))
            result.batches.close()
            expect.equal(result.residual, predicate, f"what is left of {text} for a reader that filters no rows")


def ask(operator: Any, column: str, value: Any) -> BooleanExpression:
    """A comparison that is written without text, for values that text cannot hold."""
    found: BooleanExpression = operator(Reference(column), value)
    return found


def compare(kit: FormatKit[Any], data: DataSet, *questions: str | BooleanExpression, batch_rows: int = 3) -> None:
    """Each question, answered from a file and by looking at each row."""
    stored = kit.write(data.schema, data.rows, batch_rows=batch_rows)
    for question in questions:
        where = parse(question) if isinstance(question, str) else question
        expect.equal_rows(kit.everything(stored, where), matching(stored, where), f"{data.name} where {where}")


def matching(stored: Stored, where: BooleanExpression) -> Sequence[naive.Row]:
    """The rows that match, by looking at each."""
    return [row for row in stored.rows if naive.matches(row, stored.schema, where)]


def rows_returned(kit: FormatKit[Any], file: FormatFile[Any], where: str) -> int:
    """How many rows a reader hands out, those included that the residual will take away."""
    predicate = bind(file.schema, where)
    with file.read(ReadOptions(projection=file.schema, predicate=predicate)).batches as batches:
        return sum(kit.batches.operations.num_rows(batch) for batch in batches)
