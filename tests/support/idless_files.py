"""Parquet and ORC files that store no ids, or not all: made of files that do, by pyarrow."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

__all__ = ["rewrite_without_ids"]

_ID_KEYS = (b"PARQUET:field_id", b"iceberg.id")


def rewrite_without_ids(path: Path, hidden: Collection[int] | None) -> None:
    """Write a file again without the hidden ids, or without any if None."""
    is_orc = path.suffix == ".orc"
    table = pa.orc.read_table(path) if is_orc else pq.read_table(path)
    bare = table.cast(pa.schema([_bare(field, hidden) for field in table.schema]))
    if is_orc:
        pa.orc.write_table(bare, path)
    else:
        pq.write_table(bare, path, store_schema=False)


def _bare(field: pa.Field[Any], hidden: Collection[int] | None) -> pa.Field[Any]:
    metadata = dict(field.metadata or {})
    for key in _ID_KEYS:
        if key in metadata and (hidden is None or int(metadata[key]) in hidden):
            del metadata[key]
    return pa.field(field.name, _bare_type(field.type, hidden), field.nullable, metadata)


def _bare_type(kind: Any, hidden: Collection[int] | None) -> Any:
    if pa.types.is_struct(kind):
        return pa.struct([_bare(kind.field(i), hidden) for i in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.list_(_bare(kind.value_field, hidden))
    if pa.types.is_map(kind):
        key: Any = _bare(kind.key_field, hidden)
        item: Any = _bare(kind.item_field, hidden)
        return pa.map_(key, item)
    return kind
