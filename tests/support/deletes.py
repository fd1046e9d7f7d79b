"""Delete files of tables, written by pyarrow and by hand, and added to tables that pyiceberg made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table

from formatkit.puffin import DeletionVector
from formatkit.scan import DeleteFile
from formatkit.write.deletes import write_deletion_vectors
from support.iceberg_tables import append_delete_files, data_file, with_ids, write_rows

__all__ = ["delete_at", "delete_equal", "position_file", "vectors"]

_IDS = {"file_path": b"2147483546", "pos": b"2147483545"}


def position_file(
    table: Table, name: str, rows: Iterable[tuple[str, int]], *, ids: bool = True, **facts: Any
) -> DataFile:
    """A position delete file that the table does not know yet."""
    pairs = list(rows)
    fields: list[pa.Field[Any]] = [
        pa.field("file_path", pa.string(), nullable=False),
        pa.field("pos", pa.int64(), nullable=False),
    ]
    if ids:
        fields = [field.with_metadata({"PARQUET:field_id": _IDS[field.name]}) for field in fields]
    data = pa.table([[path for path, _ in pairs], [at for _, at in pairs]], schema=pa.schema(fields))
    content = DataFileContent.POSITION_DELETES
    return data_file(table, write_rows(table, name, data), len(pairs), content=content, **facts)


def delete_at(table: Table, name: str, positions: Mapping[str, Iterable[int]], **facts: Any) -> Table:
    """Delete rows by position, with one file."""
    rows = [(path, at) for path, wanted in positions.items() for at in wanted]
    return append_delete_files(table, position_file(table, name, rows, **facts))


def delete_equal(table: Table, name: str, keys: Mapping[str, Any], ids: list[int], **facts: Any) -> Table:
    """Delete rows by equality, with one file that has the columns of `keys`."""
    data = with_ids(table, pa.table(dict(keys)))
    file = data_file(
        table,
        write_rows(table, name, data),
        data.num_rows,
        content=DataFileContent.EQUALITY_DELETES,
        equality_ids=ids,
        **facts,
    )
    return append_delete_files(table, file)


def vectors(table: Table, name: str, positions: Mapping[str, Iterable[int]], sequence_number: int) -> list[DeleteFile]:
    """Deletion vectors in one file, as tasks have them: they need no table of version 3."""
    made = {each: DeletionVector.from_positions(np.array(list(at), np.int64)) for each, at in positions.items()}
    files = write_deletion_vectors(f"{table.location()}/data/{name}", made)
    # pyiceberg's class has no names for the last fields of version 3.
    return [
        DeleteFile(
            kind="deletion vectors",
            location=file.file_path,
            file_format="puffin",
            sequence_number=sequence_number,
            row_count=file.record_count,
            size_bytes=file.file_size_in_bytes,
            referenced_data_file=file[17],
            content_offset=file[18],
            content_size=file[19],
        )
        for file in files
    ]
