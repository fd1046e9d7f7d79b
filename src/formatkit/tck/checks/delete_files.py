"""Delete files as formatkit writes them through the format: what they hold, and what manifests say of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    NestedField,
    StringType,
    StructType,
)

from formatkit.contract import Capability, ReadOptions
from formatkit.errors import ConfigurationError, InvalidDataError, SchemaResolutionError
from formatkit.io import MemorySink
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import NANOSECONDS, PRIMITIVES, numbered
from formatkit.tck.delete_tables import PATH, POSITION, POSITION_DELETES
from formatkit.tck.deletions import Deletes, DeletionVector, EqualityDeletes, PositionDeletes
from formatkit.tck.kits import FormatKit
from formatkit.tck.manifests import Entry
from formatkit.tck.naive import File, Row
from formatkit.tck.nesting import list_of, map_of
from formatkit.tck.rows import to_arrow
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.table_files import ID, file_of
from formatkit.tck.written import arrow_registry, bounds
from formatkit.tck.written_deletes import recorded, write_deletes_as_formatkit_does

_FLAT = numbered("flat", text=(StringType(), ["b", None, "ab", "c"]), number=(IntegerType(), [3, 1, None, 2]))
_PLACE = StructType(NestedField(4, "x", IntegerType()), NestedField(5, "y", StringType()))
_TABLE = Schema(ID, NestedField(2, "a", IntegerType()), NestedField(3, "place", _PLACE))
_TYPES: Sequence[IcebergType] = (FloatType(), DoubleType(), list_of(IntegerType()), map_of(IntegerType()), _PLACE)
_NO_METADATA = "metadata_of_a_file_that_is_not_declared_is_refused"
_COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")


@dataclass(frozen=True)
class _Written:
    """A delete file and its entry."""

    entry: DataFile
    data: bytes


@check("W1", "J60", "X79", layer=Layer.FORMAT)
def positions_are_stored_by_path_and_in_order(kit: FormatKit[Any]) -> None:
    written = _positions(kit, {"s3://b/z": [7, 2, 7, 2**40], "s3://b/a": [5, 0], "s3://b/ü €": [1]})
    expected = [
        ("s3://b/a", 0),
        ("s3://b/a", 5),
        ("s3://b/z", 2),
        ("s3://b/z", 7),
        ("s3://b/z", 2**40),
        ("s3://b/ü €", 1),
    ]
    rows: list[Row] = [{PATH.field_id: path, POSITION.field_id: at} for path, at in expected]
    expect.equal_rows(_rows(kit, written, POSITION_DELETES), rows, "positions that are stored")


@check("W5", "J60", layer=Layer.FORMAT)
def the_entry_of_a_position_delete_file_says_what_it_is(kit: FormatKit[Any]) -> None:
    written = _positions(kit, {"a": [1, 2], "b": [3]})
    expect.equal(written.entry.content, DataFileContent.POSITION_DELETES, "content")
    expect.equal(written.entry.record_count, 3, "record count")
    expect.equal(written.entry.file_size_in_bytes, len(written.data), "size")
    expect.equal(_format(written.entry), kit.plugin.file_format, "format")
    expect.equal((written.entry.equality_ids, written.entry.sort_order_id), (None, None), "equality ids, sort order")


@check("B6", "J55", "X79", layer=Layer.FORMAT)
def positions_of_one_file_are_recorded_with_their_bounds_alone(kit: FormatKit[Any]) -> None:
    path = "s3://bucket/a path that is longer than bounds are in most columns"
    entry = _positions(kit, {path: [0, 5, 3]}).entry
    expect.equal(bounds(entry, POSITION_DELETES, PATH.field_id), (path, path), "bounds of paths")
    expect.equal(bounds(entry, POSITION_DELETES, POSITION.field_id), (0, 5), "bounds of positions")
    expect.equal(_counted(entry), set(), "counts that are recorded")
    expect.equal(recorded(entry, "referenced_data_file"), path, "the data file that is referenced")


@check("B6", "J56", "X79", layer=Layer.FORMAT)
def positions_of_several_files_are_recorded_without_metrics(kit: FormatKit[Any]) -> None:
    entry = _positions(kit, {"a": [0, 5, 3], "b": [7]}).entry
    expect.equal(_counted(entry), set(), "counts that are recorded")
    for what, found in (("lower bounds", entry.lower_bounds), ("upper bounds", entry.upper_bounds)):
        expect.equal(found or {}, {}, what)
    expect.equal(recorded(entry, "referenced_data_file"), None, "the data file that is referenced")


@check("R1", "X79", layer=Layer.FORMAT, when=Capability.FILE_METADATA, twin=_NO_METADATA)
def delete_files_say_which_kind_they_are(kit: FormatKit[Any]) -> None:
    positions = _positions(kit, {"a": [1]})
    equalities = _equalities(kit, _FLAT.schema, _FLAT.rows, (3, 1))
    with kit.opened(positions.data) as file:
        expect.equal(file.metadata.get("delete-type"), "position", "delete-type of positions")
    with kit.opened(equalities.data) as file:
        expect.equal(file.metadata.get("delete-type"), "equality", "delete-type of rows")
        expect.equal(file.metadata.get("delete-field-ids"), "3, 1", "delete-field-ids")


@check("W2", "J60", "J57", layer=Layer.FORMAT, when=Capability.FIELD_IDS, twin="ids_that_are_not_stored_are_negative")
def delete_files_store_the_ids_of_their_columns(kit: FormatKit[Any]) -> None:
    with kit.opened(_positions(kit, {"a": [1]}).data) as file:
        expect.equal([field.field_id for field in file.schema.fields], [PATH.field_id, POSITION.field_id], "ids")
    with kit.opened(_equalities(kit, _FLAT.schema, _FLAT.rows, (3,)).data) as file:
        expect.equal([field.field_id for field in file.schema.fields], [1, 2, 3], "ids")


@check("W3", "X79", layer=Layer.FORMAT)
def positions_that_no_row_can_have_are_refused(kit: FormatKit[Any]) -> None:
    wrong: list[Mapping[str, Sequence[Any]]] = [{}, {"a": []}, {"a": [-1]}, {"a": [1.5]}]
    for positions in wrong:
        sink = MemorySink(location="memory:refused")
        with expect.raises(ConfigurationError, InvalidDataError, when=f"deleting {positions}"):
            kit.delete_writers.positions(
                sink, positions, file_format=kit.plugin.file_format, registry=arrow_registry(kit)
            )
        expect.equal(sink.data, None, "what is left of it")


@check("W1", "J57", "J58", "J59", layer=Layer.FORMAT)
def rows_of_equality_deletes_are_stored_whatever_their_types(kit: FormatKit[Any]) -> None:
    for data in (PRIMITIVES, NANOSECONDS) if kit.nanoseconds else (PRIMITIVES,):
        written = _equalities(kit, data.schema, data.rows, (1,))
        expect.equal_rows(_rows(kit, written, data.schema), data.rows, f"rows of {data.name}")
        expect.equal(written.entry.record_count, len(data.rows), "record count")


@check("W5", "J57", "J58", layer=Layer.FORMAT)
def the_entry_of_an_equality_delete_file_says_what_it_is(kit: FormatKit[Any]) -> None:
    written = _equalities(kit, _FLAT.schema, _FLAT.rows, (3, 1))
    expect.equal(written.entry.content, DataFileContent.EQUALITY_DELETES, "content")
    expect.equal(list(written.entry.equality_ids or ()), [3, 1], "equality ids")
    expect.equal(written.entry.file_size_in_bytes, len(written.data), "size")
    expect.equal(_format(written.entry), kit.plugin.file_format, "format")
    expect.equal(recorded(written.entry, "referenced_data_file"), None, "the data file that is referenced")


@check("B6", "J54", layer=Layer.FORMAT)
def equality_deletes_are_recorded_with_counts_and_bounds(kit: FormatKit[Any]) -> None:
    entry = _equalities(kit, _FLAT.schema, _FLAT.rows, (2,)).entry
    expect.equal(entry.value_counts, {1: 4, 2: 4, 3: 4}, "value counts")
    expect.equal(entry.null_value_counts, {1: 0, 2: 1, 3: 1}, "null counts")
    for field_id, expected in {1: (0, 3), 2: ("ab", "c"), 3: (1, 3)}.items():
        expect.equal(bounds(entry, _FLAT.schema, field_id), expected, f"bounds of column {field_id}")


@check("W2", "X79", layer=Layer.FORMAT)
def equality_deletes_may_have_optional_and_nested_columns_and_no_others(kit: FormatKit[Any]) -> None:
    """The columns that are not compared, the required one among them, need not be there."""
    only = Schema(NestedField(3, "place", StructType(_PLACE.fields[1])), _TABLE.fields[1])
    rows: list[Row] = [{3: None, 2: 1}, {3: {5: "x"}, 2: None}, {3: {5: None}, 2: 2}]
    written = _equalities(kit, _TABLE, rows, (5, 2), stored=only)
    with kit.opened(written.data) as file:
        stored = sorted(field.name for field in file.schema.fields)
    expect.equal(stored, ["a", "place"], "columns that are stored")
    expected: list[Row] = [{2: row[2], 3: row[3]} for row in rows]
    found = _rows(kit, written, Schema(_TABLE.fields[1], only.fields[0]))
    expect.equal_rows(found, expected, "rows that are stored")


@check("W3", "X79", layer=Layer.FORMAT)
def equality_ids_that_make_no_sense_are_refused(kit: FormatKit[Any]) -> None:
    for ids in ((), (2, 2), (2, 99), (2, 3)):
        _refused(kit, _TABLE, [{1: 1, 2: 1, 3: None}], ids, ConfigurationError, f"the equality ids {ids}")
    for kind in _TYPES:
        schema = Schema(ID, NestedField(2, "a", kind))
        _refused(kit, schema, [{1: 1, 2: None}], (2,), ConfigurationError, f"equality by {kind}")


@check("W3", "X79", layer=Layer.FORMAT)
def rows_without_a_column_that_is_compared_are_refused(kit: FormatKit[Any]) -> None:
    without = Schema(ID)
    _refused(kit, _TABLE, [{1: 1}], (2,), SchemaResolutionError, "rows without the equality column", stored=without)


@check("P10", "J57", "J58", "J60", layer=Layer.SCAN)
def deletes_that_formatkit_wrote_are_applied(kit: ScanKit[Any]) -> None:
    file = file_of(_TABLE, *((at, at % 3 or None, {4: at, 5: "x" if at % 2 else None}) for at in range(12)))
    key = Schema(_TABLE.fields[1], NestedField(3, "place", StructType(_PLACE.fields[1])))
    deletes = [
        PositionDeletes(rows=[(0, 3), (1, 0), (0, 11), (0, 3)]),
        PositionDeletes(rows=[(1, 5)]),
        DeletionVector(file=2, positions=[0, 7, 2**33]),
        EqualityDeletes(ids=(5, 2), schema=key, rows=[{2: 1, 3: {5: None}}, {2: None, 3: {5: "x"}}]),
    ]
    by_formatkit = _ByFormatkit(format=kit.format, maps_names=kit.maps_names)
    with by_formatkit.built([_TABLE], [file] * 3, deletes=deletes, format_version=3) as table:
        table.compare()
        table.compare("a = 2", select=("id", "_deleted"))


class _ByFormatkit(ScanKit[Any]):
    """Tables whose delete files formatkit writes."""

    def write_deletes(self, folder: Path, deletes: Sequence[Deletes], files: Sequence[File]) -> Iterable[Entry]:
        return write_deletes_as_formatkit_does(self.format, folder, deletes, files)


def _positions(kit: FormatKit[Any], positions: Mapping[str, Sequence[int]]) -> _Written:
    sink = MemorySink(location="memory:deletes")
    entry = kit.delete_writers.positions(
        sink,
        positions,
        file_format=kit.plugin.file_format,
        properties=kit.small_chunks,
        registry=arrow_registry(kit),
    )
    return _Written(entry, sink.data or b"")


def _equalities(
    kit: FormatKit[Any], schema: Schema, rows: Sequence[Row], ids: Sequence[int], stored: Schema | None = None
) -> _Written:
    sink = MemorySink(location="memory:deletes")
    entry = kit.delete_writers.rows(
        sink,
        to_arrow(stored or schema, rows, ids=False),
        schema,
        ids,
        file_format=kit.plugin.file_format,
        properties=kit.small_chunks,
        registry=arrow_registry(kit),
    )
    if entry is None:
        raise AssertionError(f"{len(rows)} rows were deleted, but there is no file")
    return _Written(entry, sink.data or b"")


def _refused(
    kit: FormatKit[Any],
    schema: Schema,
    rows: Sequence[Row],
    ids: Sequence[int],
    kind: type[Exception],
    when: str,
    stored: Schema | None = None,
) -> None:
    sink = MemorySink(location="memory:refused")
    data = to_arrow(stored or schema, rows, ids=False)
    with expect.raises(kind, when=when):
        kit.delete_writers.rows(
            sink, data, schema, ids, file_format=kit.plugin.file_format, registry=arrow_registry(kit)
        )
    expect.equal(sink.data, None, "what is left of it")


def _rows(kit: FormatKit[Any], written: _Written, schema: Schema) -> list[Row]:
    with kit.opened(written.data) as file:
        return kit.read(file, ReadOptions(projection=file.schema), schema)


def _counted(entry: DataFile) -> set[str]:
    return {name for name in _COUNTS if getattr(entry, name)}


def _format(entry: DataFile) -> str:
    return str(getattr(entry.file_format, "value", entry.file_format)).lower()
