"""What iceberg-rust reads of a table."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.tck.naive import Row
from formatkit.tck.rows import from_arrow
from support.oracle.servant import Servant

__all__ = ["read_by_rust"]


def read_by_rust(rust: Servant, metadata: str, schema: Schema, where: str | None = None) -> list[Row]:
    """The rows that pass the condition, which is in SQL; the metadata's location must be a URL."""
    names = ", ".join(f'"{field.name}"' for field in schema.fields)
    with TemporaryDirectory() as folder:
        output = Path(folder, "rows.arrow")
        rust.ask(metadata=metadata, select=names, where=where, output=str(output))
        with pa.OSFile(str(output), "rb") as source, pa.ipc.open_stream(source) as stream:
            return from_arrow(schema, stream.read_all())
