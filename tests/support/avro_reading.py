"""Short ways to make Avro bytes with fastavro and to read them in tests."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.contract import OpenOptions, ReadOptions
from formatkit.formats.avro import codecs
from formatkit.formats.avro.reader import AvroDataFile, AvroReader
from formatkit.io import MemorySource

SYNC = bytes(range(100, 116))
DECODERS = ("compiled", "interpreted")


def record(*fields: dict[str, Any], name: str = "row", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, field_id: int | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **({} if field_id is None else {"field-id": field_id}), **more}


def avro_file(
    schema: Any,
    rows: Iterable[Any],
    codec: str = "null",
    rows_per_block: int = 7,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """A file whose values fastavro encoded. The codec is ours, because fastavro needs more libraries for some."""
    parsed = fastavro.parse_schema(schema)
    encoded = []
    for row in rows:
        fastavro.schemaless_writer(out := io.BytesIO(), parsed, row)
        encoded.append(out.getvalue())
    return container(schema, encoded, codec, rows_per_block, metadata)


def container(
    schema: Any,
    rows: Sequence[bytes],
    codec: str = "null",
    rows_per_block: int = 7,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """A file of rows that are encoded already."""
    pairs = {"avro.schema": json.dumps(schema), "avro.codec": codec, **(metadata or {})}
    entries = b"".join(sized(name.encode()) + sized(value.encode()) for name, value in pairs.items())
    parts = [b"Obj\x01", varint(len(pairs)), entries, varint(0), SYNC]
    for start in range(0, len(rows), rows_per_block):
        chunk = rows[start : start + rows_per_block]
        parts += [varint(len(chunk)), sized(compress(codec, b"".join(chunk))), SYNC]
    return b"".join(parts)


def compress(codec: str, data: bytes) -> bytes:
    """A block as it is stored, also by codecs that are read only."""
    if codec == "lz4":
        return len(data).to_bytes(4, "little") + pa.Codec("lz4_raw").compress(data, asbytes=True)
    return bytes(codecs.compress(codec, data))


def varint(number: int) -> bytes:
    bits, out = (number << 1) ^ (number >> 63), bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*out, bits])


def sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def open_bytes(data: bytes, **options: Any) -> AvroDataFile:
    return AvroReader().open(MemorySource(data, location="test.avro"), OpenOptions(**options))


def read_batches(
    file: AvroDataFile, projection: Schema | None = None, decoder: str | None = None, **options: Any
) -> list[pa.RecordBatch]:
    """All batches; all columns unless a projection is given."""
    properties = {} if decoder is None else {"read.avro.decoder": decoder}
    asked = ReadOptions(
        projection=file.schema if projection is None else projection,
        properties=properties | options.pop("properties", {}),
        **options,
    )
    with file.read(asked).batches as batches:
        found = list(batches)
    for batch in found:
        batch.validate(full=True)
    return found


def read_rows(data: bytes, projection: Schema | None = None, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in read_batches(open_bytes(data), projection, **options) for row in batch.to_pylist()]
