"""The whole way of one file, with a batch type and a format that have nothing to do with Arrow."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, Not, Or
from pyiceberg.expressions.visitors import extract_field_ids
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.types import (
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
)

from formatkit.contract.metadata_columns import (
    DELETED,
    FILE,
    LAST_UPDATED,
    POS,
    ROW_ID,
    SPEC_ID,
    partition_column,
)
from formatkit.contract.options import ReadOptions, Split
from formatkit.contract.results import BatchStream, ReadResult
from formatkit.errors import (
    ContractViolationError,
    IllegalPromotionError,
    MissingFieldIdsError,
    MissingRequiredFieldError,
    UnsupportedError,
)
from formatkit.kernel import FileRequest, bind, plan, read
from support.filters import EqualTo, GreaterThan, In, IsNull, LessThan, NotEqualTo, NotNull
from support.rowbatch import Row, RowBatch, RowOps, holds
from support.rowformat import RowFile

OPS = RowOps()
NAN = float("nan")

PAIR = StructType(NestedField(8, "a", IntegerType()), NestedField(9, "b", IntegerType()))
STORED = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "f", FloatType()),
    NestedField(3, "s", StructType(NestedField(4, "x", IntegerType()), NestedField(5, "name", StringType()))),
    NestedField(
        6, "l", ListType(7, StructType(NestedField(8, "a", IntegerType()), NestedField(9, "b", IntegerType())))
    ),
    NestedField(10, "m", MapType(11, StringType(), 12, IntegerType())),
)
ROWS: list[Row] = [
    (1, 0.5, (1, "one"), [(1, 2), None], [("k", 1)]),
    (2, NAN, None, [], []),
    (None, None, (None, None), None, None),
    (4, -0.0, (4, "four"), [(None, 3)], [("k", None)]),
    (5, 1.5, (5, None), [(5, 6)], [("a", 1), ("b", 2)]),
]
ADDED = NestedField(13, "added", DateType(), initial_default=date(2020, 1, 1))
TABLE = Schema(
    NestedField(10, "renamed", MapType(11, StringType(), 12, LongType())),
    NestedField(
        3,
        "s",
        StructType(
            NestedField(13, "added", DateType(), initial_default=date(2020, 1, 1)), NestedField(4, "x", LongType())
        ),
    ),
    NestedField(1, "id", LongType()),
    NestedField(2, "f", DoubleType()),
    NestedField(6, "l", ListType(7, StructType(NestedField(9, "b", LongType()), NestedField(14, "c", StringType())))),
    NestedField(15, "part", StringType()),
)
PARTITION = partition_column(
    StructType(NestedField(1000, "part", StringType()), NestedField(1001, "old", IntegerType()))
)
METADATA = (FILE, POS, DELETED, SPEC_ID, PARTITION, ROW_ID, LAST_UPDATED)
EVERYTHING = Schema(*TABLE.fields, *METADATA)


def request(schema: Schema = TABLE, where: BooleanExpression | str = "true", **options: Any) -> FileRequest:
    options.setdefault("partition_constants", {15: "p"})
    return FileRequest(
        schema=schema,
        predicate=bind(EVERYTHING, where),
        location="f.rows",
        partition=("p", None),
        spec_id=3,
        **options,
    )


def rows(file: RowFile, asked: FileRequest) -> list[Row]:
    with read(file, OPS, asked) as batches:
        returned = list(batches)
    assert all(batch.rows for batch in returned)
    assert file.open_reads == 0
    return [row for batch in returned for row in batch.rows]


def expected_rows(asked: FileRequest, stored: list[Row] = ROWS) -> list[Row]:
    """The rows of the request, made by evolving everything first and filtering last."""
    constants = {
        **asked.partition_constants,
        FILE.field_id: asked.location,
        DELETED.field_id: False,
        SPEC_ID.field_id: asked.spec_id,
        PARTITION.field_id: asked.partition,
        LAST_UPDATED.field_id: None if asked.first_row_id is None else asked.sequence_number,
    }
    known = asked.first_row_id is not None
    lineage = [(position, asked.first_row_id + position if known else None) for position in range(len(stored))]  # type: ignore[operator]
    source = Schema(*STORED.fields, POS, ROW_ID)
    whole = OPS.evolve(source, EVERYTHING, constants)(
        RowBatch(tuple((*row, *extra) for row, extra in zip(stored, lineage, strict=True)))
    )
    kept = OPS.filter(EVERYTHING, asked.predicate)(whole)
    return list(OPS.evolve(EVERYTHING, asked.schema, {})(kept).rows)


FILTERS: list[BooleanExpression] = [
    AlwaysTrue(),
    GreaterThan("id", 1),
    LessThan("id", 2**40),
    NotEqualTo("id", 2),
    EqualTo("f", 0.0),
    Not(GreaterThan("f", 0.7)),
    EqualTo("s.added", date(2020, 1, 1)),
    NotEqualTo("s.added", date(2020, 1, 1)),
    IsNull("s"),
    IsNull("s.x"),
    NotNull("renamed"),
    IsNull("l"),
    EqualTo("part", "p"),
    EqualTo("part", "q"),
    EqualTo("_file", "f.rows"),
    EqualTo("_partition.part", "q"),
    GreaterThan("_pos", 2),
    In("_pos", [0, 4]),
    EqualTo("_row_id", 104),
    IsNull("_row_id"),
    EqualTo("_last_updated_sequence_number", 7),
    And(GreaterThan("id", 1), LessThan("_pos", 4)),
    Or(EqualTo("id", 1), EqualTo("_pos", 4)),
    Or(EqualTo("_row_id", 101), And(NotNull("s.x"), EqualTo("part", "p"))),
    And(Or(EqualTo("part", "p"), EqualTo("id", 9)), Not(IsNull("f"))),
]
OUTPUTS = {
    "table": TABLE,
    "everything": EVERYTHING,
    "one column": Schema(TABLE.fields[2]),
    "no columns": Schema(),
    "metadata": Schema(*METADATA),
    "absent child": Schema(
        NestedField(3, "s", StructType(NestedField(13, "added", DateType(), initial_default=date(2020, 1, 1))))
    ),
    "lineage first": Schema(ROW_ID, TABLE.fields[3], POS),
}


@pytest.mark.parametrize("effort", ["none", "rows"])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("where", FILTERS, ids=str)
def test_a_file_reads_as_if_it_had_been_rewritten_first(where: BooleanExpression, output: str, effort: Any) -> None:
    for first_row_id, batch_rows in ((None, 2), (100, 100)):
        asked = request(OUTPUTS[output], where, first_row_id=first_row_id, sequence_number=7, batch_rows=batch_rows)
        file = RowFile(STORED, ROWS, effort=effort)
        assert repr(rows(file, asked)) == repr(expected_rows(asked))


@pytest.mark.parametrize("where", FILTERS, ids=str)
def test_a_reader_that_evolves_by_itself_gives_the_same_rows(where: BooleanExpression) -> None:
    output = Schema(*(field for field in TABLE.fields if field.name != "part"))
    asked = request(output, where, first_row_id=100, sequence_number=7)
    for effort in ("none", "rows"):
        file = RowFile(STORED, ROWS, effort=effort, evolves=True)
        assert repr(rows(file, asked)) == repr(expected_rows(asked))


def test_a_reader_evolves_only_what_it_can_know() -> None:
    inside = Schema(
        NestedField(1, "s", StructType(NestedField(2, "x", IntegerType()), NestedField(3, "p", StringType())))
    )
    stored = Schema(NestedField(1, "s", StructType(NestedField(2, "x", IntegerType()))))
    asked = FileRequest(schema=inside, location="f", partition_constants={3: "given"})
    assert rows(RowFile(stored, [((1,),), (None,)], evolves=True), asked) == [((1, "given"),), (None,)]


def test_a_plain_read_hands_the_readers_batches_through_untouched() -> None:
    file = RowFile(STORED, ROWS)
    made: list[RowBatch] = []

    class Watched(RowFile):
        def read(self, options: ReadOptions) -> ReadResult[RowBatch]:
            result = super().read(options)

            def watch() -> Iterator[RowBatch]:
                for batch in result.batches:
                    made.append(batch)
                    yield batch

            return replace(result, batches=BatchStream(watch(), result.batches.close))

    watched = Watched(file.schema, file.content)
    with read(watched, OPS, FileRequest(schema=STORED, location="f", batch_rows=2)) as batches:
        returned = list(batches)
    assert len(returned) == 3
    assert all(left is right for left, right in zip(made, returned, strict=True))
    assert watched.requests[0].projection == STORED


def test_columns_of_the_filter_are_read_and_dropped_again() -> None:
    file = RowFile(STORED, ROWS)
    asked = request(Schema(TABLE.fields[2]), GreaterThan("s.x", 1))
    assert rows(file, asked) == [(4,), (5,)]
    projection = file.requests[0].projection
    assert projection == Schema(STORED.fields[0], NestedField(3, "s", StructType(NestedField(4, "x", IntegerType()))))
    assert extract_field_ids(file.requests[0].predicate) == {4}


@pytest.mark.parametrize("where", [EqualTo("part", "q"), EqualTo("_file", "g"), GreaterThan("id", 2**40)], ids=str)
def test_a_file_of_which_no_row_can_match_is_not_read(where: BooleanExpression) -> None:
    file = RowFile(STORED, ROWS)
    assert rows(file, request(where=where)) == []
    assert file.requests == []


def test_nothing_stays_open_when_the_stream_is_closed_early() -> None:
    file = RowFile(STORED, ROWS)
    batches = read(file, OPS, request(batch_rows=1))
    next(batches)
    assert file.open_reads == 1
    batches.close()
    batches.close()
    assert file.open_reads == 0
    with pytest.raises(StopIteration):
        next(batches)


def test_nothing_stays_open_when_the_iteration_never_started() -> None:
    file = RowFile(STORED, ROWS)
    read(file, OPS, request()).close()
    assert file.open_reads == 0


class Failing(RowOps):
    """Operations that fail while a residual is compiled, or on the second batch."""

    def __init__(self, when: str) -> None:
        self._when = when
        self._seen = 0

    def filter(self, schema: Schema, predicate: BooleanExpression) -> Any:
        if self._when == "compile":
            raise RuntimeError("compile")

        def step(batch: RowBatch) -> RowBatch:
            self._seen += 1
            if self._seen == 2:
                raise RuntimeError("batch")
            return batch

        return step


@pytest.mark.parametrize("when", ["compile", "batch"])
def test_nothing_stays_open_after_a_failure(when: str) -> None:
    file = RowFile(STORED, ROWS)

    def consume() -> None:
        for _ in read(file, Failing(when), request(where=GreaterThan("id", 1), batch_rows=1)):
            pass

    with pytest.raises(RuntimeError, match=when):
        consume()
    assert file.open_reads == 0


def test_a_reader_that_returns_another_batch_type_is_found_out_at_its_first_batch() -> None:
    class Liar(RowFile):
        def read(self, options: ReadOptions) -> ReadResult[Any]:
            result = super().read(options)
            lists = (list(batch.rows) for batch in result.batches)
            return ReadResult(batches=BatchStream(lists, result.batches.close), residual=AlwaysTrue())

    liar = Liar(STORED, ROWS)
    with pytest.raises(ContractViolationError, match=r"clause R3 .*f\.rows returned a list where RowBatch") as error:
        rows(liar, request())
    assert error.value.clause == "R3"  # type: ignore[attr-defined]
    assert liar.open_reads == 0


def test_a_reader_that_evolves_unasked_is_found_out() -> None:
    class Eager(RowFile):
        def read(self, options: ReadOptions) -> ReadResult[RowBatch]:
            return replace(super().read(options), schema_evolved=True)

    eager = Eager(STORED, ROWS)
    with pytest.raises(ContractViolationError, match="without having been given a target"):
        read(eager, OPS, request(EVERYTHING))
    assert eager.open_reads == 0


LINEAGE = Schema(NestedField(1, "id", IntegerType()), ROW_ID, NestedField(2, "v", IntegerType()), LAST_UPDATED)


@pytest.mark.parametrize(
    ("first_row_id", "sequence_number", "expected"),
    [
        (100, 9, [(50, 5), (101, 5), (52, 9), (103, 9)]),
        (100, None, [(50, 5), (101, 5), (52, None), (103, None)]),
        (0, 0, [(50, 5), (1, 5), (52, 0), (3, 0)]),
        (None, 9, [(None, None)] * 4),
    ],
)
@pytest.mark.parametrize("where", ["true", "_row_id >= 0", "_row_id is null", "_last_updated_sequence_number = 9"])
def test_stored_lineage_wins_and_its_nulls_inherit(
    first_row_id: int | None, sequence_number: int | None, expected: list[Row], where: str
) -> None:
    file = RowFile(LINEAGE, [(1, 50, 0, 5), (2, None, 0, 5), (3, 52, 0, None), (4, None, 0, None)])
    output = Schema(ROW_ID, LAST_UPDATED)
    predicate = bind(output, where)
    asked = FileRequest(
        schema=output,
        predicate=predicate,
        location="f",
        first_row_id=first_row_id,
        sequence_number=sequence_number,
    )
    assert rows(file, asked) == [row for row in expected if holds(predicate, output, row)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, [(1, "stored")]), ({"prefer_partition_constants": True}, [(1, "given")])],
    ids=["the file wins", "the constant wins"],
)
@pytest.mark.parametrize("where", ["true", "p = 'given'", "p = 'stored'", "p is null"])
def test_a_stored_column_against_its_partition_constant(
    options: dict[str, Any], expected: list[Row], where: str
) -> None:
    schema = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "p", StringType()))
    predicate = bind(schema, where)
    asked = FileRequest(schema=schema, predicate=predicate, location="f", partition_constants={2: "given"}, **options)
    assert rows(RowFile(schema, [(1, "stored")]), asked) == [row for row in expected if holds(predicate, schema, row)]


@pytest.mark.parametrize("value", [0, None, 5])
@pytest.mark.parametrize("required", [True, False])
def test_partition_constants_fill_absent_columns_before_their_defaults(value: int | None, required: bool) -> None:
    field = NestedField(2, "p", IntegerType(), required=required, initial_default=9)
    schema = Schema(NestedField(1, "a", IntegerType()), field)
    asked = FileRequest(schema=schema, location="f", partition_constants={2: value})
    file = RowFile(Schema(schema.fields[0]), [(1,)])
    if value is None and required:
        with pytest.raises(MissingRequiredFieldError):
            rows(file, asked)
    else:
        assert rows(file, asked) == [(1, value)]


def without_ids(schema: Schema) -> Schema:
    return Schema(*(field.model_copy(update={"field_id": -field.field_id}) for field in schema.fields))


FLAT = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", IntegerType()))
SWAPPED = Schema(NestedField(2, "a", IntegerType()), NestedField(1, "b", IntegerType()))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"missing_ids": "by-name"}, [(2, 1)]),
        ({"missing_ids": "by-position"}, [(1, 2)]),
        ({"name_mapping": create_mapping_from_schema(FLAT)}, [(2, 1)]),
    ],
    ids=str,
)
def test_files_without_ids_are_read_as_the_caller_says(options: dict[str, Any], expected: list[Row]) -> None:
    file = RowFile(without_ids(Schema(FLAT.fields[0], FLAT.fields[1])), [(1, 2)])
    reordered = Schema(NestedField(2, "b", LongType()), NestedField(1, "a", LongType()))
    asked = FileRequest(schema=reordered, location="f", **options)
    assert rows(file, asked) == expected


def test_by_position_means_the_position_in_the_table() -> None:
    file = RowFile(without_ids(FLAT), [(1, 2)])
    asked = FileRequest(
        schema=Schema(NestedField(2, "y", IntegerType())), location="f", missing_ids="by-position", table_schema=FLAT
    )
    assert rows(file, asked) == [(2,)]


def test_names_that_were_swapped_follow_their_ids() -> None:
    asked = FileRequest(schema=SWAPPED, predicate=bind(SWAPPED, "a = 2"), location="f")
    assert rows(RowFile(FLAT, [(1, 2), (2, 1)]), asked) == [(2, 1)]


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        (Schema(NestedField(1, "id", StringType())), IllegalPromotionError),
        (Schema(NestedField(99, "new", IntegerType(), required=True)), MissingRequiredFieldError),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_is_opened(schema: Schema, error: type[Exception]) -> None:
    file = RowFile(STORED, ROWS)
    with pytest.raises(error, match=r"f\.rows"):
        read(file, OPS, FileRequest(schema=schema, location="f.rows"))
    assert file.requests == []


def test_a_filter_on_a_column_that_cannot_be_read_is_refused() -> None:
    stored = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", UnknownType()))
    table = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", IntegerType()))
    asked = FileRequest(schema=Schema(table.fields[0]), predicate=bind(table, "b = 1"), location="f")
    with pytest.raises(UnsupportedError, match="'b' of f cannot be read: odd"):
        read(RowFile(stored, [(1, None)], unreadable={2: "odd"}), OPS, asked)


def test_a_file_without_ids_is_refused_unless_told_otherwise() -> None:
    with pytest.raises(MissingFieldIdsError):
        read(RowFile(without_ids(FLAT), [(1, 2)]), OPS, FileRequest(schema=FLAT, location="f"))


def test_the_plan_tells_what_is_asked_of_the_reader_and_what_the_kernel_does() -> None:
    asked = request(EVERYTHING, And(GreaterThan("id", 1), LessThan("_pos", 3)), first_row_id=5)
    file = RowFile(STORED, ROWS)
    made = plan(file.schema, file.unreadable, asked)
    assert [field.name for field in made.projection.fields] == ["id", "f", "s", "l", "m", "_pos"]
    assert extract_field_ids(made.predicate) == {1}
    assert extract_field_ids(made.late_predicate) == {POS.field_id}
    assert [column.field.name for column in made.computed] == ["_row_id"]
    assert made.target is None
    assert made.steps == ("inject _row_id", "filter computed columns", "evolve")
    with read(file, OPS, asked) as batches:
        assert batches.plan == made
        assert batches.residual == made.predicate
        assert batches.counters == {"rows": 5}


def test_options_of_the_request_reach_the_reader() -> None:
    file = RowFile(STORED, ROWS)
    asked = request(split=Split(4, 10), batch_rows=2, dictionary_columns=frozenset({5}), properties={"a": "b"})
    rows(file, asked)
    (options,) = file.requests
    assert (options.split, options.batch_rows) == (Split(4, 10), 2)
    assert (options.dictionary_columns, options.properties) == (frozenset({5}), {"a": "b"})


def test_requests_survive_pickling() -> None:
    asked = request(where=And(IsNull("s.x"), In("id", [1, 2])), name_mapping=create_mapping_from_schema(TABLE))
    copy = pickle.loads(pickle.dumps(asked))
    assert copy == asked
    assert rows(RowFile(STORED, ROWS), copy) == rows(RowFile(STORED, ROWS), asked)
