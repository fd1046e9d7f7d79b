"""Delete files of tables: of a format, or deletion vectors in Puffin files, with what manifests say of them.

The kit writes them without formatkit's own writers of deletes, so that reading is judged by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from formatkit.contract import Capability
from formatkit.tck.deletions import Deletes, DeletionVector, EqualityDeletes, PositionDeletes
from formatkit.tck.kits import FormatKit
from formatkit.tck.manifests import Entry, local_path
from formatkit.tck.metrics import manifest_metrics
from formatkit.tck.naive import File, Row
from formatkit.tck.vectors import Blob, puffin_file, vector_bytes

__all__ = ["PATH", "POSITION", "POSITION_DELETES", "write_deletes"]

PATH = NestedField(2147483546, "file_path", StringType(), required=True)
POSITION = NestedField(2147483545, "pos", LongType(), required=True)
POSITION_DELETES = Schema(PATH, POSITION)
"""The columns of position delete files."""

_ROW = 2147483544


def write_deletes(
    kit: FormatKit[Any], folder: Path, deletes: Sequence[Deletes], files: Sequence[File]
) -> Iterator[Entry]:
    """Write all deletes into a folder, those with positions or rows in the format, and all vectors in one Puffin file.

    Args:
        kit: The format.
        folder: Where to.
        deletes: What is deleted.
        files: The data files of the table, whose numbers `deletes` use.
    """
    for number, delete in enumerate(deletes):
        path = folder / f"deletes-{number}.{kit.plugin.file_format}"
        match delete:
            case PositionDeletes() if delete.rows:
                yield _positions(kit, path, delete, files)
            case EqualityDeletes() if delete.rows:
                yield _equalities(kit, path, delete)
    vectors = [delete for delete in deletes if isinstance(delete, DeletionVector)]
    yield from _vectors(folder / "deletes.puffin", vectors, files)


def _positions(kit: FormatKit[Any], path: Path, delete: PositionDeletes, files: Sequence[File]) -> Entry:
    def path_of(name: int | str) -> str:
        location = name if isinstance(name, str) else files[name].location
        return location if delete.spelling is None else delete.spelling(str(local_path(location)))

    rows: list[Row] = [{PATH.field_id: path_of(name), POSITION.field_id: at} for name, at in delete.rows]
    schema = POSITION_DELETES
    if delete.copies:
        originals = [(files[name], at) for name, at in delete.rows if isinstance(name, int)]
        stored = originals[0][0].schema.as_struct()
        schema = Schema(*schema.fields, NestedField(_ROW, "row", stored, required=True))
        rows = [row | {_ROW: file.rows[at]} for row, (file, at) in zip(rows, originals, strict=True)]
    _write(kit, path, schema, rows, {"delete-type": "position"})
    metrics = manifest_metrics(POSITION_DELETES, rows)
    referenced = {} if delete.only is None else {"referenced_data_file": files[delete.only].location}
    content = DataFileContent.POSITION_DELETES
    return _entry(kit, path, delete, content=content, row_count=len(rows), facts={**metrics, **referenced})


def _equalities(kit: FormatKit[Any], path: Path, delete: EqualityDeletes) -> Entry:
    ids = ", ".join(map(str, delete.ids))
    _write(kit, path, delete.schema, delete.rows, {"delete-type": "equality", "delete-field-ids": ids})
    facts = {**manifest_metrics(delete.schema, delete.rows), "equality_ids": list(delete.ids)}
    content = DataFileContent.EQUALITY_DELETES
    return _entry(kit, path, delete, content=content, row_count=len(delete.rows), facts=facts)


def _write(kit: FormatKit[Any], path: Path, schema: Schema, rows: Sequence[Row], metadata: dict[str, str]) -> None:
    keeps = Capability.FILE_METADATA in kit.plugin.capabilities
    path.write_bytes(kit.write(schema, rows, metadata=metadata if keeps else None).data)


def _entry(kit: FormatKit[Any], path: Path, delete: Deletes, **described: Any) -> Entry:
    return Entry(
        location=path.as_uri(),
        file_format=kit.plugin.file_format,
        spec_id=delete.spec_id,
        partition=delete.partition,
        sequence_number=delete.sequence_number,
        **described,
    )


def _vectors(path: Path, vectors: Sequence[DeletionVector], files: Sequence[File]) -> Iterator[Entry]:
    if not vectors:
        return
    blobs = [_blob(each, files[each.file].location) for each in vectors]
    data, offsets = puffin_file(blobs)
    path.write_bytes(data)
    for delete, blob, offset in zip(vectors, blobs, offsets, strict=True):
        yield Entry(
            location=path.as_uri(),
            file_format="puffin",
            row_count=blob.cardinality + delete.miscounted,
            content=DataFileContent.POSITION_DELETES,
            spec_id=delete.spec_id,
            partition=delete.partition,
            sequence_number=delete.sequence_number,
            facts={
                "referenced_data_file": files[delete.file].location,
                "content_offset": offset,
                "content_size_in_bytes": len(blob.data),
            },
        )


def _blob(delete: DeletionVector, location: str) -> Blob:
    data = vector_bytes(delete.positions, runs=delete.runs)
    return Blob(
        data=data if delete.damage is None else delete.damage(data),
        referenced=delete.belongs_to or location,
        cardinality=len(set(delete.positions)),
    )
