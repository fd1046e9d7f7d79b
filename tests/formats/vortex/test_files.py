"""Vortex files: what they hold, where ids are, and what other readers and writers of Vortex make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import vortex as vx
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UnknownType,
)

from formatkit.contract import POS, Encryption, OpenOptions, ReadOptions, WriteOptions
from formatkit.contract.variant import VariantType
from formatkit.errors import ConfigurationError, CorruptFileError, InvalidDataError, StorageError, UnsupportedError
from formatkit.formats.vortex.plugin import VortexFormat
from formatkit.io import MemorySink, MemorySource
from formatkit.tck.rows import comparable, to_arrow
from support.every_type import EDGES, EVERY_TYPE
from support.plugin_files import opened, read_rows, write_rows, write_table

PLUGIN = VortexFormat()
SMALL = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", StringType()))


def test_every_type_comes_back_as_it_was_with_its_ids() -> None:
    with opened(PLUGIN, write_rows(PLUGIN, EVERY_TYPE, EDGES)) as file:
        assert file.schema == EVERY_TYPE
        assert comparable(read_rows(file)) == comparable(EDGES)


def test_moments_can_have_the_type_of_vortex() -> None:
    schema = Schema(NestedField(1, "at", TimestampType()))
    rows: list[dict[int, Any]] = [{1: 5}, {1: None}, {1: -5}]
    stored = write_rows(PLUGIN, schema, rows, properties={"write.vortex.native-timestamps": "true"})
    with opened(PLUGIN, stored) as file:
        assert read_rows(file) == rows
        assert "timestamp" in file.describe()["type"]


def test_a_property_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="native-timestamps"):
        write_rows(PLUGIN, SMALL, [{1: 1, 2: "x"}], properties={"write.vortex.native-timestamps": "maybe"})


def test_docs_and_defaults_and_key_value_pairs_are_found_again() -> None:
    schema = Schema(NestedField(1, "a", LongType(), doc="a number", initial_default=7), schema_id=3)
    with opened(PLUGIN, write_rows(PLUGIN, schema, [{1: 1}], metadata={"k": "v ü", "": "x" * 70_000})) as file:
        assert file.schema.fields == schema.fields
        assert file.metadata == {"k": "v ü", "": "x" * 70_000}


def test_geometry_and_variant_are_stored_as_their_bytes() -> None:
    schema = Schema(NestedField(1, "place", GeometryType()), NestedField(2, "v", VariantType()))
    column = pa.array(
        [{"metadata": b"\x01\x00\x00", "value": b"\x00"}, None],
        pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]),
    )
    table = pa.table([pa.array([b"wkb", None]), column], names=["place", "v"])
    with opened(PLUGIN, write_table(PLUGIN, schema, table)) as file:
        assert file.schema == schema
        with file.read(ReadOptions(projection=file.schema)).batches as batches:
            assert pa.Table.from_batches(batches).to_pylist() == table.to_pylist()


def test_unknown_columns_are_not_stored() -> None:
    schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "nothing", UnknownType()))
    table = pa.table([pa.array([1]), pa.nulls(1)], names=["a", "nothing"])
    with opened(PLUGIN, write_table(PLUGIN, schema, table)) as file:
        assert [field.name for field in file.schema.fields] == ["a"]
    with pytest.raises(UnsupportedError, match="no column that Vortex can store"):
        write_table(PLUGIN, Schema(schema.fields[1]), table.select([1]))


def test_the_library_itself_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.vortex"
    path.write_bytes(write_rows(PLUGIN, SMALL, [{1: 1, 2: "x"}, {1: None, 2: None}]))
    assert vx.open(str(path)).to_arrow().read_all().to_pylist() == [{"a": 1, "b": "x"}, {"a": None, "b": None}]


def foreign(tmp_path: Path, table: pa.Table) -> bytes:
    path = tmp_path / "foreign.vortex"
    vx.io.write(table, str(path))
    return path.read_bytes()


def test_files_of_other_writers_have_no_ids(tmp_path: Path) -> None:
    table = pa.table(
        {
            "i8": pa.array([1, None], pa.int8()),
            "text": ["x", "y"],
            "u64": pa.array([1, 2**64 - 1], pa.uint64()),
            "at": pa.array([1, None], pa.timestamp("ms", "Europe/Berlin")),
            "s": pa.array([{"a": 1, "b": [{"c": 1}]}, None]),
        }
    )
    with opened(PLUGIN, foreign(tmp_path, table)) as file:
        assert all(field_id < 0 for field_id in file.schema.field_ids)
        assert not file.unreadable
        rows = read_rows(file, Schema(*file.schema.fields, POS))
        ids = {field.name: field.field_id for field in file.schema.fields}
        assert [row[ids["i8"]] for row in rows] == [1, None]
        assert [row[ids["u64"]] for row in rows] == [1, 2**64 - 1]
        assert [row[ids["at"]] for row in rows] == [1000, None]
        assert [row[POS.field_id] for row in rows] == [0, 1]
        assert rows[1][ids["s"]] is None


def test_a_file_that_holds_no_rows_of_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "numbers.vortex"
    vx.io.write(vx.array([1, 2, 3]), str(path))
    with pytest.raises(UnsupportedError, match="not rows"), opened(PLUGIN, path.read_bytes()):
        pass


NESTED = Schema(
    NestedField(1, "s", StructType(
        NestedField(2, "x", IntegerType(), required=True),
        NestedField(3, "t", StructType(NestedField(4, "y", IntegerType()), NestedField(5, "z", BinaryType()))),
    )),
    NestedField(6, "l", ListType(
        7, StructType(NestedField(8, "p", LongType()), NestedField(9, "q", LongType())), element_required=True
    )),
)  # fmt: skip
NESTED_ROWS: list[dict[int, Any]] = [
    {1: {2: 1, 3: {4: 2, 5: b"z"}}, 6: [{8: 1, 9: 2}]},
    {1: None, 6: None},
    {1: {2: 3, 3: None}, 6: []},
]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([NestedField(1, "s", StructType(NestedField(2, "x", IntegerType(), required=True)))],
         [{1: {2: 1}}, {1: None}, {1: {2: 3}}]),
        ([NestedField(1, "s", StructType(NestedField(3, "t", StructType(NestedField(5, "z", BinaryType())))))],
         [{1: {3: {5: b"z"}}}, {1: None}, {1: {3: None}}]),
        ([NestedField(6, "l", ListType(7, StructType(NestedField(9, "q", LongType())), True))],
         [{6: [{9: 2}]}, {6: None}, {6: []}]),
        ([], [{}, {}, {}]),
    ],
    ids=["field", "deeper field", "field in a list", "nothing"],
)  # fmt: skip
def test_parts_of_nested_columns_can_be_asked_for(fields: list[NestedField], expected: list[Any]) -> None:
    with opened(PLUGIN, write_rows(PLUGIN, NESTED, NESTED_ROWS)) as file:
        if fields:
            assert read_rows(file, Schema(*fields)) == expected
        else:
            with file.read(ReadOptions(projection=Schema(), batch_rows=2)).batches as batches:
                assert [batch.num_rows for batch in batches] == [2, 1]


def test_encryption_is_refused() -> None:
    encryption = Encryption(key=b"0" * 16)
    with pytest.raises(UnsupportedError, match="encrypted"):
        PLUGIN.writer().open(MemorySink(), WriteOptions(schema=SMALL, encryption=encryption))
    stored = MemorySource(write_rows(PLUGIN, SMALL, [{1: 1, 2: "x"}]))
    with pytest.raises(UnsupportedError, match="encrypted"):
        PLUGIN.reader().open(stored, OpenOptions(encryption=encryption))


def test_a_failure_of_the_storage_keeps_its_type() -> None:
    class Unplugged(MemorySource):
        works = True

        def read(self, offset: int, length: int) -> memoryview:
            if not self.works:
                raise StorageError("the cable is out", location=self.location)
            return super().read(offset, length)

    source = Unplugged(write_rows(PLUGIN, SMALL, [{1: n, 2: str(n) * 50} for n in range(20_000)]))
    with opened(PLUGIN, source) as file:
        source.works = False
        with pytest.raises(StorageError, match="the cable is out"):
            read_rows(file)


def test_an_encoder_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    schema = Schema(NestedField(1, "at", TimestampType()))
    sink = MemorySink()
    options = WriteOptions(schema=schema, properties={"write.vortex.native-timestamps": "true"})
    writer = PLUGIN.writer().open(sink, options)
    writer.write(to_arrow(schema, [{1: 2**63 - 1}, {1: 0}]).to_batches()[0])
    with pytest.raises(InvalidDataError, match="range"):
        writer.close()
    assert sink.data is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", ["close", "abort"])
def test_nothing_temporary_stays(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    writer = PLUGIN.writer().open(MemorySink(), WriteOptions(schema=SMALL))
    for _ in range(5):
        writer.write(to_arrow(SMALL, [{1: 1, 2: "x"}]).to_batches()[0])
    assert writer.bytes_written() > 0
    getattr(writer, end)()
    assert list(tmp_path.iterdir()) == []


def test_what_is_expected_of_the_size_is_near_the_size() -> None:
    sink = MemorySink()
    writer = PLUGIN.writer().open(sink, WriteOptions(schema=SMALL))
    for start in range(0, 200_000, 20_000):
        table = to_arrow(SMALL, [{1: n * 7919, 2: f"text {n}"} for n in range(start, start + 20_000)])
        writer.write(table.combine_chunks().to_batches()[0])
    expected = writer.bytes_written()
    writer.close()
    assert sink.data is not None
    assert 0.5 < expected / len(sink.data) < 2


@pytest.mark.parametrize("data", [b"", b"VTXF", b"PAR1 is something else PAR1", b"VTXF" * 3])
def test_other_files_are_told_apart(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="<memory>"), opened(PLUGIN, data):
        pass
