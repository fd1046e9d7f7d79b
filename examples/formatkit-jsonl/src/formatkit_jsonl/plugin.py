"""The format: a line that holds the schema, a line for each row, and a line that holds the number of rows."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.arrow.plain_format import FileDescription, PlainFormat, batch_of_rows
from formatkit.contract import DEFAULT_BATCH_ROWS, ByteSource, Capability, WriteOptions
from formatkit.contract.schema_json import schema_from_json, schema_to_json
from formatkit.errors import ConfigurationError
from formatkit_jsonl.values import from_json, to_json

__all__ = ["JsonLinesFormat"]

CODEC = "write.jsonl.compression-codec"


class JsonLinesFormat(PlainFormat):
    """JSON Lines, as they are or compressed with gzip."""

    file_format = "jsonl"
    extensions = (".jsonl", ".jsonl.gz")
    magic = b'{"iceberg-jsonl": '
    capabilities = frozenset(
        {Capability.FIELD_IDS, Capability.FILE_METADATA, Capability.NANOSECONDS, Capability.VARIANT}
    )

    def describe(self, source: ByteSource) -> FileDescription:
        with closing(_lines(source)) as lines:
            header = json.loads(next(lines, "{}"))
        return FileDescription(
            schema=schema_from_json(header["schema"]),
            metadata={str(key): str(value) for key, value in header["metadata"].items()},
            facts={"version": header["iceberg-jsonl"]},
        )

    def decode(
        self, source: ByteSource, description: FileDescription, columns: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        schema = Schema(*(description.schema.fields[column] for column in columns))
        with closing(_rows(source, schema)) as rows:
            while some := list(islice(rows, DEFAULT_BATCH_ROWS)):
                yield batch_of_rows(schema, some)

    def begin(self, options: WriteOptions) -> bytes:
        schema = json.loads(schema_to_json(options.schema))
        return _encoded([{"iceberg-jsonl": 1, "schema": schema, "metadata": dict(options.metadata)}], options)

    def encode(self, batch: pa.RecordBatch, options: WriteOptions) -> bytes:
        kind = options.schema.as_struct()
        return _encoded((to_json(kind, row) for row in ArrowBatch().rows(options.schema, batch)), options)

    def end(self, rows: int, options: WriteOptions) -> bytes:
        return _encoded([rows], options)


def _encoded(values: Iterable[Any], options: WriteOptions) -> bytes:
    data = "".join(f"{json.dumps(value, ensure_ascii=False, allow_nan=False)}\n" for value in values).encode()
    match options.properties.get(CODEC, "none").lower():
        case "none":
            return data
        case "gzip":
            # A file may consist of several compressed parts.
            return gzip.compress(data, mtime=0)
        case codec:
            raise ConfigurationError(f"{CODEC} is {codec!r}; it can be: none, gzip")


def _lines(source: ByteSource) -> Generator[str, None, None]:
    is_gzip = bytes(source.read(0, min(2, source.size()))) == b"\x1f\x8b"
    with closing(source.open()) as file:
        binary: Any = gzip.GzipFile(fileobj=file) if is_gzip else file
        yield from io.TextIOWrapper(binary, encoding="utf-8", newline="\n")


def _rows(source: ByteSource, schema: Schema) -> Generator[tuple[Any, ...], None, None]:
    """The rows, and at the end the proof that they are all: a file that was cut between two lines looks whole."""
    kind, rows, end = schema.as_struct(), 0, None
    with closing(_lines(source)) as lines:
        for line in islice(lines, 1, None):
            value = json.loads(line)
            if isinstance(value, dict):
                rows += 1
                yield from_json(kind, value)
            else:
                end = value
    if end != rows:
        raise ValueError(f"it has {rows} rows and its last line says {end}, so it was cut or changed")
