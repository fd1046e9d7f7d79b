"""Avro files written into memory, and what fastavro, with its logical types switched off, makes of the same rows."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from decimal import Context, Decimal
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa
import zstandard
from fastavro.read import BLOCK_READERS
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IcebergType, ListType, MapType, NestedField, StructType

from formatkit.contract import WriteOptions, WriteResult
from formatkit.formats.avro.writer import AvroWriter
from formatkit.io import MemorySink

__all__ = ["block_rows", "decoded", "encoded", "payload", "stored_rows", "stored_schema", "write_columns", "written"]

_EXACT = Context(prec=76)


def _stored_block(file: Any) -> bytes:
    """The bytes of a block: their number in seven bits a byte and zigzag form, then they themselves."""
    length = shift = 0
    while True:
        byte = file.read(1)[0]
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            content: bytes = file.read(length >> 1)
            return content


def _snappy_block(file: Any) -> io.BytesIO:
    stored = _stored_block(file)
    length = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(_varint(stored)))
    plain = pa.Codec("snappy").decompress(stored[:-4], length, asbytes=True)
    assert zlib.crc32(plain) == int.from_bytes(stored[-4:], "big")
    return io.BytesIO(plain)


def _varint(data: bytes) -> bytes:
    return data[: next(i for i, byte in enumerate(data) if byte < 0x80) + 1]


def _zstandard_block(file: Any) -> io.BytesIO:
    return io.BytesIO(zstandard.ZstdDecompressor().decompress(_stored_block(file)))


# fastavro wants packages for these two that nothing else here needs.
BLOCK_READERS.update(snappy=_snappy_block, zstandard=_zstandard_block)


def written(schema: Schema, batches: Iterable[pa.RecordBatch], **options: Any) -> tuple[bytes, WriteResult]:
    """The bytes of a file of these batches, and what the writer reports."""
    sink = MemorySink()
    with AvroWriter().open(sink, WriteOptions(schema=schema, **options)) as writer:
        for batch in batches:
            writer.write(batch)
        result = writer.close()
    assert result is not None
    assert sink.data is not None
    return sink.data, result


def write_columns(schema: Schema, *columns: Any, **options: Any) -> bytes:
    """The bytes of a file of these columns."""
    batch = pa.RecordBatch.from_arrays(list(columns), names=[field.name for field in schema.fields])
    return written(schema, [batch], **options)[0]


def stored_schema(data: bytes) -> Any:
    """The Avro schema as the file spells it."""
    return json.loads(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"])


def stored_rows(data: bytes | BinaryIO) -> list[Any]:
    """The rows as fastavro reads them, by the names in the file."""
    return list(fastavro.reader(io.BytesIO(data) if isinstance(data, bytes) else data))


def _blocks(data: bytes) -> Iterator[Any]:
    return iter(fastavro.block_reader(io.BytesIO(data)))


def block_rows(data: bytes) -> list[int]:
    return [block.num_records for block in _blocks(data)]


def payload(data: bytes) -> bytes:
    """All rows in binary form, as fastavro finds them in the blocks."""
    return b"".join(block.bytes_.getvalue() for block in _blocks(data))


def encoded(avro: Any, schema: Schema, rows: Sequence[dict[int, Any]]) -> bytes:
    """The rows as fastavro encodes them for this Avro schema."""
    plain = fastavro.parse_schema(_without_logical_types(avro))
    output = io.BytesIO()
    for row in rows:
        fastavro.schemaless_writer(output, plain, _datum(avro, schema.as_struct(), row))
    return output.getvalue()


def decoded(data: bytes, schema: Schema) -> list[dict[int, Any]]:
    """The rows of a file as fastavro decodes them, as internal values by field id; unknown fields are not stored."""
    avro = stored_schema(data)
    plain = fastavro.parse_schema(_without_logical_types(avro))
    rows: list[dict[int, Any]] = []
    for block in _blocks(data):
        datums = [fastavro.schemaless_reader(block.bytes_, plain, None) for _ in range(block.num_records)]
        rows += [_value(avro, schema.as_struct(), datum) for datum in datums]
        assert not block.bytes_.read()
    return rows


def _without_logical_types(avro: Any) -> Any:
    match avro:
        case dict():
            return {key: _without_logical_types(value) for key, value in avro.items() if key != "logicalType"}
        case list():
            return [_without_logical_types(item) for item in avro]
    return avro


def _branch(avro: Any) -> Any:
    return next(branch for branch in avro if branch != "null") if isinstance(avro, list) else avro


def _pairs(avro: Any, struct: StructType) -> list[tuple[Any, NestedField]]:
    by_id = {field.field_id: field for field in struct.fields}
    return [(stored, by_id[stored["field-id"]]) for stored in avro["fields"]]


def _entry(avro: Any, kind: MapType) -> tuple[Any, Any]:
    """The Avro types of a map's keys and values."""
    if avro["type"] == "map":
        return "string", avro["values"]
    key, value = avro["items"]["fields"]
    return key["type"], value["type"]


def _datum(avro: Any, kind: IcebergType, value: Any) -> Any:
    avro = _branch(avro)
    match kind:
        case _ if value is None:
            return None
        case StructType():
            return {
                stored["name"]: _datum(stored["type"], field.field_type, value[field.field_id])
                for stored, field in _pairs(avro, kind)
            }
        case ListType():
            return [_datum(avro["items"], kind.element_type, element) for element in value]
        case MapType():
            key_type, value_type = _entry(avro, kind)
            pairs = [(_datum(key_type, kind.key_type, k), _datum(value_type, kind.value_type, v)) for k, v in value]
            return dict(pairs) if avro["type"] == "map" else [{"key": k, "value": v} for k, v in pairs]
        case DecimalType():
            size = _bytes_of_precision(kind.precision)
            return int(value.scaleb(kind.scale, _EXACT)).to_bytes(size, "big", signed=True)
    return value


def _value(avro: Any, kind: IcebergType, datum: Any) -> Any:
    avro = _branch(avro)
    match kind:
        case _ if datum is None:
            return None
        case StructType():
            return {
                field.field_id: _value(stored["type"], field.field_type, datum[stored["name"]])
                for stored, field in _pairs(avro, kind)
            }
        case ListType():
            return [_value(avro["items"], kind.element_type, element) for element in datum]
        case MapType():
            key_type, value_type = _entry(avro, kind)
            pairs = datum.items() if avro["type"] == "map" else [(pair["key"], pair["value"]) for pair in datum]
            return [(_value(key_type, kind.key_type, k), _value(value_type, kind.value_type, v)) for k, v in pairs]
        case DecimalType():
            number = int.from_bytes(datum, "big", signed=True)
            return Decimal(number).scaleb(-kind.scale, _EXACT)
    return datum


def _bytes_of_precision(precision: int) -> int:
    """By the table in the specification of Avro: the smallest n with 10**precision - 1 <= 2**(8n - 1) - 1."""
    return next(size for size in range(1, 17) if 10**precision <= 2 ** (8 * size - 1))
