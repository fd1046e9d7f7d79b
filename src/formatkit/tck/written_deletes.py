"""Delete files of tables as formatkit itself writes them, to be judged by those that the kit reads or writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.manifest import DATA_FILE_TYPE, DataFile

from formatkit.puffin import DeletionVector as Vector
from formatkit.tck.deletions import Deletes, DeletionVector, EqualityDeletes, PositionDeletes
from formatkit.tck.kits import FormatKit
from formatkit.tck.manifests import Entry
from formatkit.tck.naive import File
from formatkit.tck.rows import to_arrow
from formatkit.tck.written import arrow_registry

__all__ = ["recorded", "write_deletes_as_formatkit_does"]

# pyiceberg has names for the fields of version 2 only.
_PLACES = {field.name: place for place, field in enumerate(DATA_FILE_TYPE[3].fields)}
_FACTS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
    "split_offsets",
    "equality_ids",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)


def write_deletes_as_formatkit_does(
    kit: FormatKit[Any], folder: Path, deletes: Sequence[Deletes], files: Sequence[File]
) -> Iterator[Entry]:
    """Arguments as in `formatkit.tck.delete_tables.write_deletes`, of which this is the other half."""
    for number, delete in enumerate(deletes):
        path = str(folder / f"deletes-{number}.{kit.plugin.file_format}")
        match delete:
            case PositionDeletes():
                yield _entry(_positions(kit, path, delete, files), delete)
            case EqualityDeletes():
                yield _entry(_equalities(kit, path, delete), delete)
    vectors = {files[each.file].location: each for each in deletes if isinstance(each, DeletionVector)}
    if vectors:
        given = {location: Vector.from_positions(each.positions) for location, each in vectors.items()}
        written = kit.delete_writers.vectors(str(folder / "deletes.puffin"), given)
        yield from map(_entry, written, vectors.values())


def _positions(kit: FormatKit[Any], path: str, delete: PositionDeletes, files: Sequence[File]) -> DataFile:
    positions: dict[str, list[int]] = {}
    for name, at in delete.rows:
        positions.setdefault(name if isinstance(name, str) else files[name].location, []).append(at)
    return kit.delete_writers.positions(
        path, positions, file_format=kit.plugin.file_format, properties=kit.small_chunks, registry=arrow_registry(kit)
    )


def _equalities(kit: FormatKit[Any], path: str, delete: EqualityDeletes) -> DataFile:
    written = kit.delete_writers.rows(
        path,
        to_arrow(delete.schema, delete.rows, ids=False),
        delete.schema,
        delete.ids,
        file_format=kit.plugin.file_format,
        properties=kit.small_chunks,
        registry=arrow_registry(kit),
    )
    if written is None:
        raise AssertionError(f"{len(delete.rows)} rows were deleted, but there is no file")
    return written


def _entry(written: DataFile, delete: Deletes) -> Entry:
    facts = {name: recorded(written, name) for name in _FACTS}
    return Entry(
        location=written.file_path,
        file_format=str(getattr(written.file_format, "value", written.file_format)).lower(),
        row_count=written.record_count,
        content=written.content,
        spec_id=delete.spec_id,
        partition=delete.partition,
        sequence_number=delete.sequence_number,
        facts={name: fact for name, fact in facts.items() if fact is not None},
    )


def recorded(entry: DataFile, name: str) -> Any:
    """A field of an entry of version 3."""
    return entry[_PLACES[name]]
