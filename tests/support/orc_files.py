"""Short ways to write, open and read ORC in tests, and to look at what was written with pyorc."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyorc
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from formatkit.contract import POS, OpenOptions, ReadOptions, WriteOptions, WriteResult
from formatkit.formats.orc.reader import OrcDataFile, OrcReader
from formatkit.formats.orc.writer import OrcWriter
from formatkit.io import MemorySink, MemorySource
from formatkit.kernel import bind

__all__ = ["columns_named", "foreign", "open_bytes", "pyorc_bytes", "pyorc_type", "read_rows", "stripes_of", "written"]


def stripes_of(rows: int) -> dict[str, str]:
    """Properties that make stripes of so many rows, if the file has a column of text that is never null.

    The encoder looks at sizes between its own batches only, and counts what it has neither compressed nor put into
    dictionaries.
    """
    return {
        "write.orc.vectorized.batch-size": str(rows),
        "write.orc.stripe-size-bytes": "1",
        "write.orc.compression-codec": "none",
        "orc.dictionary.key.threshold": "0",
    }


def written(schema: Schema, batches: Sequence[pa.RecordBatch], **options: Any) -> tuple[bytes, WriteResult]:
    """The file and its result."""
    sink = MemorySink()
    with OrcWriter().open(sink, WriteOptions(schema=schema, **options)) as writer:
        for batch in batches:
            writer.write(batch)
    result = writer.close()
    assert result is not None
    assert sink.data is not None
    return bytes(sink.data), result


def foreign(table: pa.Table, **options: Any) -> bytes:
    """A file that pyarrow wrote by itself."""
    content = io.BytesIO()
    pyarrow.orc.write_table(table, content, **options)
    return content.getvalue()


def pyorc_bytes(schema: str, rows: Sequence[Any], **options: Any) -> bytes:
    """A file that pyorc wrote."""
    content = io.BytesIO()
    with pyorc.Writer(content, schema, **options) as writer:
        writer.writerows(rows)
    return content.getvalue()


def pyorc_type(data: bytes) -> Any:
    """The types of a file as pyorc sees them."""
    return pyorc.Reader(io.BytesIO(data)).schema


def open_bytes(data: bytes, **options: Any) -> OrcDataFile:
    return OrcReader().open(MemorySource(data), OpenOptions(**options))


def read_rows(
    file: OrcDataFile, projection: Schema | None = None, where: str | BooleanExpression | None = None, **options: Any
) -> list[dict[str, Any]]:
    """All rows; all columns unless a projection is given."""
    projection = file.schema if projection is None else projection
    if where is not None:
        options["predicate"] = bind(file.schema, where)
    with file.read(ReadOptions(projection=projection, **options)).batches as batches:
        return [row for batch in batches for row in batch.to_pylist()]


def columns_named(file: OrcDataFile, *names: str, positions: bool = False) -> Schema:
    """A projection of whole top-level columns."""
    fields = [field for field in file.schema.fields if field.name in names]
    return Schema(*fields, *([POS] if positions else []))
