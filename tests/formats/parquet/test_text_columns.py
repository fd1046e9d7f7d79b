"""Text is decoded in the form that is cheapest for it, and is what was written whatever that form was."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg.expressions
import pytest

from formatkit.errors import CorruptFileError
from formatkit.formats.parquet import decoding, text_columns
from formatkit.formats.parquet.projection import project
from formatkit.formats.parquet.text_columns import PlainText, TextForms
from formatkit.kernel import bind
from support.foreign_parquet import parquet_bytes
from support.parquet_reading import columns_named, open_bytes, read_batches

# The constructors take a name and a value, which their annotations do not tell.
ex: Any = pyiceberg.expressions

ROWS = 1000


def few(width: int) -> list[str]:
    choose = random.Random(width)
    return [choose.choice("abcdefg") * width for _ in range(ROWS)]


def many() -> list[str]:
    return [f"{'x' * (number % 5)}{number}" for number in range(ROWS)]


def with_nulls(values: list[str]) -> list[str | None]:
    return [None if number % 7 == 3 else value for number, value in enumerate(values)]


COLUMNS: dict[str, list[Any]] = {
    **{f"codes of {width}": few(width) for width in (1, 2, 3, 8, 16, 37)},
    "codes or nulls": with_nulls(few(4)),
    "only empty": [""] * ROWS,
    "sometimes empty": [("", "ab", "cd")[number % 3] for number in range(ROWS)],
    "of many lengths": [f"{'x' * (number % 9)}é" for number in range(ROWS)],
    "never the same": many(),
    "never the same or null": with_nulls(many()),
    "only nulls": [None] * ROWS,
    "bytes": [bytes([number % 3]) * 5 for number in range(ROWS)],
    "bytes of many lengths": [bytes([number % 251]) * (number % 11) for number in range(ROWS)],
}
TYPES = {name: pa.binary() if name.startswith("bytes") else pa.string() for name in COLUMNS}
TABLE = pa.table(COLUMNS, schema=pa.schema(list(TYPES.items())))


def stored(table: pa.Table, **options: Any) -> bytes:
    return parquet_bytes(table, store_schema=False, **{"write_page_index": True, **options})


@pytest.mark.parametrize("batch_rows", [1, 37, 130, 4000])
@pytest.mark.parametrize("dictionary", [True, False, ["codes of 8", "bytes"]], ids=["all", "none", "some"])
@pytest.mark.parametrize("row_group_size", [128, ROWS])
def test_text_is_what_was_written(batch_rows: int, dictionary: bool | list[str], row_group_size: int) -> None:
    data = stored(TABLE, use_dictionary=dictionary, row_group_size=row_group_size)
    batches = read_batches(open_bytes(data), batch_rows=batch_rows)
    assert all(batch.num_rows <= batch_rows for batch in batches)
    for batch in batches:
        batch.validate(full=True)
    assert pa.Table.from_batches(batches).equals(TABLE)


@pytest.mark.parametrize("name", COLUMNS)
def test_each_column_of_text_is_read_alone(name: str) -> None:
    file = open_bytes(stored(TABLE, row_group_size=300))
    batches = read_batches(file, columns_named(file, name), batch_rows=400)
    assert pa.Table.from_batches(batches).equals(TABLE.select([name]))


def test_chunks_that_become_too_long_for_their_dictionary_are_read_as_the_others() -> None:
    table = pa.table({"id": range(ROWS), "text": [f"{number:050}" for number in range(ROWS)]})
    data = stored(table, dictionary_pagesize_limit=2000, data_page_size=500, write_batch_size=50)
    encodings = set(pq.read_metadata(pa.BufferReader(data)).row_group(0).column(1).encodings)
    assert {"PLAIN", "RLE_DICTIONARY"} <= encodings
    assert pa.Table.from_batches(read_batches(open_bytes(data), batch_rows=300)).equals(table)


def forms_of(data: bytes, monkeypatch: pytest.MonkeyPatch) -> TextForms:
    chosen: list[TextForms] = []

    def noting(*arguments: Any) -> TextForms:
        chosen.append(text_columns.text_forms(*arguments))
        return chosen[-1]

    monkeypatch.setattr(decoding, "text_forms", noting)
    read_batches(open_bytes(data))
    return chosen[0]


def test_dictionaries_are_decoded_where_there_is_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    table = TABLE.select(["codes of 8", "never the same"])
    forms = forms_of(stored(table, use_dictionary=["codes of 8"]), monkeypatch)
    assert (forms.expanded, forms.wide) == ([0], [1])


def test_long_chunks_are_left_to_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_columns, "_MOST_WIDE_BYTES", 100)
    forms = forms_of(stored(TABLE.select(["never the same"]), use_dictionary=False), monkeypatch)
    assert (forms.expanded, forms.wide) == ([], [])


def test_text_inside_of_other_columns_and_dictionaries_stay_as_they_are() -> None:
    nested = pa.array([{"t": value} for value in many()], pa.struct([("t", pa.string())]))
    table = pa.table({"nested": nested, "text": many(), "codes": few(3)})
    file = open_bytes(stored(table))
    codes = next(field.field_id for field in file.schema.fields if field.name == "codes")
    batches = read_batches(file, dictionary_columns=frozenset({codes}), batch_rows=300)
    read = pa.Table.from_batches(batches)
    assert read.schema.field("codes").type == pa.dictionary(pa.int32(), pa.string())
    assert read.to_pylist() == table.to_pylist()


@pytest.mark.parametrize("dictionary", [True, False])
def test_text_beyond_the_reach_of_small_offsets_comes_in_more_batches(
    dictionary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"id": range(ROWS), "text": with_nulls(many()), "codes": few(8)})
    file = open_bytes(stored(table, use_dictionary=["codes"] if dictionary else False))
    monkeypatch.setattr(text_columns, "_MOST_TEXT_BYTES", 500)
    batches = read_batches(file, columns_named(file, "id", "text", "codes", positions=True), batch_rows=400)
    assert max(batch.num_rows for batch in batches) < 200
    read = pa.Table.from_batches(batches)
    assert read.column("_pos").to_pylist() == list(range(ROWS))
    assert read.drop_columns("_pos").equals(table)


@pytest.mark.parametrize("values", [["ab", "cd"], ["ab", "c"]], ids=["codes", "others"])
def test_an_index_without_a_value_is_refused(values: list[str]) -> None:
    file = open_bytes(stored(pa.table({"codes": ["a"]})))
    text = PlainText(project(file._footer.columns.columns, file.schema, frozenset()), None)
    indices = pa.array([0, 1, 7, 0], pa.int32())
    with pytest.raises(pa.ArrowIndexError):
        list(text.parts([pa.DictionaryArray.from_arrays(indices, pa.array(values), safe=False)], 4))


BAD = b"\xff31"
BAD_ROWS = 12_000
"""Enough for compiled code, which reads longer row groups, and for several pages."""


def _map_of(text: pa.Array[Any]) -> pa.Array[Any]:
    offsets: Any = list(range(len(text) + 1))
    return pa.MapArray.from_arrays(offsets, pa.array([""] * len(text)), text)


PLACES: dict[str, Callable[[pa.Array[Any]], pa.Array[Any]]] = {
    "a column": lambda text: text,
    "a struct": lambda text: pa.StructArray.from_arrays([text, text], ["a", "b"]),
    "a list": lambda text: pa.ListArray.from_arrays(list(range(len(text) + 1)), text),
    "a map": _map_of,
}


def with_bad_text(place: str, **options: Any) -> bytes:
    """A file of other writers, in which one text is not UTF-8 and no checksum says so."""
    text = pa.array(["é 1" if number % 2 else f"{number % 99}" for number in range(BAD_ROWS)])
    values = pa.concat_arrays([text.slice(0, 9000), pa.array(["b31"]), text.slice(9001)])
    table = pa.table({"id": range(BAD_ROWS), "s": PLACES[place](values)})
    data = stored(table, compression="none", write_statistics=False, data_page_size=4096, **options)
    assert b"b31" in data
    return data.replace(b"b31", BAD)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
@pytest.mark.parametrize("row_group_size", [1000, BAD_ROWS])
def test_text_that_is_not_utf_8_is_corrupt(place: str, dictionary: bool, row_group_size: int) -> None:
    file = open_bytes(with_bad_text(place, use_dictionary=dictionary, row_group_size=row_group_size))
    with pytest.raises(CorruptFileError, match="'s' holds text that is not UTF-8"):
        read_batches(file)
    assert sum(batch.num_rows for batch in read_batches(file, columns_named(file, "id"))) == BAD_ROWS


@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
@pytest.mark.parametrize("wanted", [range(9000, 9001), range(8000, 12_000), range(0, 12_000, 3)], ids=str)
def test_text_that_is_not_utf_8_is_corrupt_where_some_rows_are_read(dictionary: bool, wanted: range) -> None:
    file = open_bytes(with_bad_text("a column", use_dictionary=dictionary))
    between = ex.And(ex.GreaterThanOrEqual("id", wanted.start), ex.LessThan("id", wanted.stop))
    predicate = ex.In("id", set(wanted)) if wanted.step > 1 else between
    with pytest.raises(CorruptFileError, match="'s' holds text that is not UTF-8"):
        read_batches(file, predicate=bind(file.schema, predicate))
