"""Lance files: what they hold, what is checked, and what other readers and writers of Lance make of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.file import LanceFileReader, LanceFileWriter
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
)

from formatkit.contract import POS, Encryption, OpenOptions, ReadOptions, WriteOptions
from formatkit.contract.schema_json import schema_from_json
from formatkit.contract.variant import VariantType
from formatkit.errors import CorruptFileError, UnsupportedError
from formatkit.formats.lance.plugin import LanceFormat
from formatkit.io import LocalSource, MemorySink, MemorySource
from formatkit.kernel import bind
from formatkit.tck.rows import comparable, to_arrow
from support.every_type import EDGES, EVERY_TYPE
from support.plugin_files import opened, read_rows, tiles, write_rows, write_table

PLUGIN = LanceFormat()
SMALL = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", StringType()))


def test_every_type_comes_back_as_it_was_with_its_ids() -> None:
    with opened(PLUGIN, write_rows(PLUGIN, EVERY_TYPE, EDGES)) as file:
        assert file.schema == EVERY_TYPE
        assert comparable(read_rows(file)) == comparable(EDGES)


def test_the_whole_schema_and_key_value_pairs_are_found_again() -> None:
    schema = Schema(NestedField(1, "a", LongType(), doc="a number", initial_default=7), schema_id=3)
    with opened(PLUGIN, write_rows(PLUGIN, schema, [{1: 1}], metadata={"k": "v ü"})) as file:
        assert schema_from_json(file.metadata["iceberg.schema"]) == schema
        assert file.metadata["k"] == "v ü"


def test_geometry_and_variant_keep_their_types() -> None:
    schema = Schema(NestedField(1, "place", GeometryType()), NestedField(2, "v", VariantType()))
    parts = [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
    column = pa.array([{"metadata": b"\x01\x00\x00", "value": b"\x00"}, None], pa.struct(parts))
    table = pa.table([pa.array([b"wkb", None]), column], names=["place", "v"])
    with opened(PLUGIN, write_table(PLUGIN, schema, table)) as file:
        assert file.schema == schema
        with file.read(ReadOptions(projection=file.schema)).batches as batches:
            assert pa.Table.from_batches(batches).to_pylist() == table.to_pylist()


def test_names_that_lance_does_not_take_are_stored_under_others() -> None:
    names = ["a.b", "a_x2Eb", "", "_", "x`y"]
    schema = Schema(*(NestedField(number, name, LongType()) for number, name in enumerate(names, start=1)))
    rows = [{number: number * 10 for number in range(1, 6)}]
    with opened(PLUGIN, write_rows(PLUGIN, schema, rows)) as file:
        assert [field.name for field in file.schema.fields] == ["a_x2Eb", "a_x2Eb_", "_", "__", "x`y"]
        assert read_rows(file) == rows


def test_unknown_columns_are_not_stored() -> None:
    schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "nothing", UnknownType()))
    table = pa.table([pa.array([1]), pa.nulls(1)], names=["a", "nothing"])
    with opened(PLUGIN, write_table(PLUGIN, schema, table)) as file:
        assert [field.name for field in file.schema.fields] == ["a"]
    with pytest.raises(UnsupportedError, match="no column that Lance can store"):
        write_table(PLUGIN, Schema(schema.fields[1]), table.select([1]))


def test_the_library_itself_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.lance"
    path.write_bytes(write_rows(PLUGIN, SMALL, [{1: 1, 2: "x"}, {1: None, 2: None}]))
    found = LanceFileReader(str(path)).read_all().to_table()
    assert found.to_pylist() == [{"a": 1, "b": "x"}, {"a": None, "b": None}]
    assert found.schema.field("b").metadata == {b"PARQUET:field_id": b"2"}


def test_files_of_other_writers_have_no_ids(tmp_path: Path) -> None:
    path = tmp_path / "foreign.lance"
    table = pa.table(
        {"i8": pa.array([1, None], pa.int8()), "u64": pa.array([1, 2**64 - 1], pa.uint64()), "t": ["x", "y"]}
    )
    with LanceFileWriter(str(path), table.schema) as writer:
        writer.write_batch(table)
    with opened(PLUGIN, path.read_bytes()) as file:
        assert not file.describe()["sealed"]
        assert all(field_id < 0 for field_id in file.schema.field_ids)
        assert not file.unreadable
        rows = read_rows(file, Schema(*file.schema.fields, POS))
        assert [tuple(row.values()) for row in rows] == [(1, 1, "x", 0), (None, 2**64 - 1, "y", 1)]


NESTED = Schema(
    NestedField(1, "s", StructType(
        NestedField(2, "x", IntegerType(), required=True),
        NestedField(3, "t", StructType(NestedField(4, "y", IntegerType()), NestedField(5, "z", LongType()))),
    )),
    NestedField(6, "l", ListType(
        7, StructType(NestedField(8, "p", LongType()), NestedField(9, "q", LongType())), element_required=True
    )),
    NestedField(10, "m", MapType(11, StringType(), 12, StructType(
        NestedField(13, "v", LongType()), NestedField(14, "w", LongType())
    ), value_required=False)),
)  # fmt: skip
NESTED_ROWS: list[dict[int, Any]] = [
    {1: {2: 1, 3: {4: 2, 5: 9}}, 6: [{8: 1, 9: 2}], 10: [("k", {13: 1, 14: 2}), ("n", None)]},
    {1: None, 6: None, 10: None},
    {1: {2: 3, 3: None}, 6: [], 10: []},
]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (NestedField(1, "s", StructType(NestedField(2, "x", IntegerType(), required=True))), [{2: 1}, None, {2: 3}]),
        (NestedField(1, "s", StructType(NestedField(3, "t", StructType(NestedField(5, "z", LongType()))))),
         [{3: {5: 9}}, None, {3: None}]),
        (NestedField(6, "l", ListType(7, StructType(NestedField(9, "q", LongType())), element_required=True)),
         [[{9: 2}], None, []]),
        (NestedField(10, "m", MapType(11, StringType(), 12, StructType(NestedField(14, "w", LongType())), False)),
         [[("k", {14: 2}), ("n", None)], None, []]),
    ],
    ids=["field", "deeper field", "field in a list", "field in a map"],
)  # fmt: skip
def test_parts_of_nested_columns_can_be_asked_for(field: NestedField, expected: list[Any]) -> None:
    with opened(PLUGIN, write_rows(PLUGIN, NESTED, NESTED_ROWS)) as file:
        assert read_rows(file, Schema(field)) == [{field.field_id: value} for value in expected]


def test_without_columns_rows_are_counted() -> None:
    options = ReadOptions(projection=Schema(), batch_rows=2)
    stored = write_rows(PLUGIN, SMALL, [{1: n, 2: ""} for n in range(5)])
    with opened(PLUGIN, stored) as file, file.read(options).batches as batches:
        assert [batch.num_rows for batch in batches] == [2, 2, 1]


def test_only_the_columns_that_are_asked_for_are_checked(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "x", DoubleType()))
    noise = np.random.default_rng(1).random(200_000)
    path = tmp_path / "a.lance"
    path.write_bytes(write_table(PLUGIN, schema, pa.table({"id": np.arange(len(noise)), "x": noise})))
    values = LanceFileReader(str(path)).metadata().columns[1].pages[0].buffers[-1]
    damaged = bytearray(path.read_bytes())
    damaged[values.position + values.size // 2] ^= 1
    path.write_bytes(damaged)
    file = PLUGIN.reader().open(LocalSource(path), OpenOptions())
    with file.read(ReadOptions(projection=Schema(schema.fields[0]))).batches as batches:
        assert sum(batch.num_rows for batch in batches) == len(noise)
    with pytest.raises(CorruptFileError, match="checksum"):
        list(file.read(ReadOptions(projection=schema)).batches)


@pytest.fixture(scope="module")
def numbers() -> bytes:
    schema = Schema(NestedField(1, "id", LongType()))
    return write_table(PLUGIN, schema, pa.table({"id": np.arange(200_000)}))


@given(cuts=st.lists(st.floats(0, 1), max_size=6), batch_rows=st.sampled_from([1000, 32_768]))
def test_splits_that_tile_the_file_give_each_row_once(numbers: bytes, cuts: list[float], batch_rows: int) -> None:
    with opened(PLUGIN, numbers) as file:
        found: list[Any] = []
        for split in tiles(len(numbers), [int(cut * len(numbers)) for cut in cuts]):
            projection = Schema(*file.schema.fields, POS)
            with file.read(ReadOptions(projection=projection, split=split, batch_rows=batch_rows)).batches as batches:
                for batch in batches:
                    assert batch.num_rows <= batch_rows
                    assert batch.column(0) == batch.column(1)
                    found += batch.column(0).to_pylist()
    assert found == list(range(200_000))


def test_threads_may_share_an_open_file(numbers: bytes) -> None:
    with opened(PLUGIN, numbers) as file, ThreadPoolExecutor(4) as pool:
        splits = tiles(len(numbers), file.split_offsets)
        assert len(splits) == 4
        assert sum(pool.map(lambda split: len(read_rows(file, split=split)), splits)) == 200_000


def test_the_whole_predicate_is_left_to_do() -> None:
    with opened(PLUGIN, write_rows(PLUGIN, SMALL, [{1: 1, 2: "x"}])) as file:
        predicate = bind(SMALL, "a = 7")
        result = file.read(ReadOptions(projection=file.schema, predicate=predicate))
        assert result.residual == predicate
        assert sum(batch.num_rows for batch in result.batches) == 1


def test_a_copy_of_a_distant_file_lives_as_long_as_the_file_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = write_rows(PLUGIN, SMALL, [{1: 1, 2: "x"}])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with opened(PLUGIN, stored) as file:
        assert len(list(tmp_path.iterdir())) == 1
        assert read_rows(file) == [{1: 1, 2: "x"}]
    assert list(tmp_path.iterdir()) == []


def test_a_local_file_is_not_copied_and_not_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "with space and %20.lance"
    path.write_bytes(write_rows(PLUGIN, SMALL, [{1: n, 2: "x"} for n in range(1000)]))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    source = LocalSource(path)
    file = PLUGIN.reader().open(source, OpenOptions())
    with file.read(ReadOptions(projection=file.schema, batch_rows=10)).batches as batches:
        assert next(batches).num_rows == 10
    file.close()
    source.close()
    assert path not in [handle.resolve() for handle in Path("/proc/self/fd").iterdir()]


@pytest.mark.parametrize("end", ["close", "abort"])
def test_nothing_temporary_stays(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    writer = PLUGIN.writer().open(MemorySink(), WriteOptions(schema=SMALL))
    writer.write(to_arrow(SMALL, [{1: 1, 2: "x"}]).to_batches()[0])
    assert writer.bytes_written() > 0
    getattr(writer, end)()
    assert list(tmp_path.iterdir()) == []


def test_encryption_is_refused() -> None:
    encryption = Encryption(key=b"0" * 16)
    with pytest.raises(UnsupportedError, match="encrypted"):
        PLUGIN.writer().open(MemorySink(), WriteOptions(schema=SMALL, encryption=encryption))
    stored = MemorySource(write_rows(PLUGIN, SMALL, [{1: 1, 2: "x"}]))
    with pytest.raises(UnsupportedError, match="encrypted"):
        PLUGIN.reader().open(stored, OpenOptions(encryption=encryption))


@pytest.mark.parametrize("data", [b"", b"LANC", b"PAR1 is something else and longer than forty bytes PAR1"])
def test_other_files_are_told_apart(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="<memory>"), opened(PLUGIN, data):
        pass
