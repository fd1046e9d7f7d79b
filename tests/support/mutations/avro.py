"""Hostile Avro files."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from random import Random
from typing import Any

import fastavro
import zstandard

from support.mutations import jsons

__all__ = ["AvroFile", "mutants", "varint"]

_MAGIC, _SYNC_BYTES = b"Obj\x01", 16
_NUMBERS = [0, 1, -1, 2, 3, 7, 63, 64, 1000, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63)]


def varint(number: int) -> bytes:
    """A number as Avro writes it."""
    rest = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    digits = bytearray()
    while rest > 0x7F:
        digits.append((rest & 0x7F) | 0x80)
        rest >>= 7
    return bytes([*digits, rest])


def _sized(data: bytes) -> bytes:
    return varint(len(data)) + data


@dataclass(frozen=True)
class AvroFile:
    """An Avro file in parts: blocks are how many records there are and their bytes, not compressed."""

    metadata: dict[str, bytes]
    sync: bytes
    blocks: tuple[tuple[int, bytes], ...]

    @staticmethod
    def parse(data: bytes) -> AvroFile:
        reader = fastavro.block_reader(BytesIO(data))
        metadata = {name: value.encode() for name, value in reader.metadata.items()}
        metadata["avro.codec"] = b"null"
        schema = json.loads(metadata["avro.schema"])
        blocks = []
        for block in reader:
            records = list(block)
            content = BytesIO()
            for record in records:
                fastavro.schemaless_writer(content, schema, record)
            blocks.append((len(records), content.getvalue()))
        return AvroFile(metadata, data[-_SYNC_BYTES:], tuple(blocks))

    def to_bytes(self, compress: Any = bytes) -> bytes:
        head = varint(len(self.metadata)) + b"".join(
            _sized(name.encode("utf-8", "surrogatepass")) + _sized(value) for name, value in self.metadata.items()
        )
        body = [varint(count) + _sized(compress(content)) + self.sync for count, content in self.blocks]
        return b"".join([_MAGIC, head, b"\x00", self.sync, *body])


def mutants(data: bytes, random: Random) -> Iterator[bytes]:
    parsed = AvroFile.parse(data)
    schema = json.loads(parsed.metadata["avro.schema"])
    records = [record for count, block in parsed.blocks for record in _records(block, count, schema)]
    while True:
        match random.choice(["bytes", "payload", "payload", "schema", "schema", "records", "records", "frame", "bomb"]):
            case "bytes":
                yield _damaged(data, random)
            case "payload":
                yield _with_blocks(parsed, [(count, _damaged(block, random)) for count, block in parsed.blocks], random)
            case "schema":
                changed = jsons.change(json.loads(parsed.metadata["avro.schema"]), random)
                text = json.dumps(changed).encode()
                yield replace(parsed, metadata=parsed.metadata | {"avro.schema": text}).to_bytes()
            case "records":
                yield _with_records(parsed, schema, [_changed(schema, record, random) for record in records], random)
            case "frame":
                yield _with_frame(parsed, random)
            case "bomb":
                yield _bomb(parsed, random)


def _records(block: bytes, count: int, schema: Any) -> Iterator[Any]:
    stream = BytesIO(block)
    for _ in range(count):
        yield fastavro.schemaless_reader(stream, schema, None)


def _damaged(data: bytes, random: Random) -> bytes:
    place = random.randrange(len(data) or 1)
    run = random.choice([1, 1, 2, 8])
    other = random.choice([random.randbytes(run), varint(random.choice(_NUMBERS)), b"", b"\xff" * run, bytes(run)])
    return data[:place] + other + data[place + random.choice([0, 1, run]) :]


def _with_blocks(parsed: AvroFile, blocks: list[tuple[int, bytes]], random: Random) -> bytes:
    codec, compress = random.choice([("null", bytes), ("deflate", _deflate), ("zstandard", zstandard.compress)])
    metadata = parsed.metadata | {"avro.codec": codec.encode()}
    return replace(parsed, metadata=metadata, blocks=tuple(blocks)).to_bytes(compress)


def _deflate(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-15)


def _with_records(parsed: AvroFile, schema: Any, records: list[Any], random: Random) -> bytes:
    content = BytesIO()
    for record in records:
        fastavro.schemaless_writer(content, schema, record)
    return _with_blocks(parsed, [(len(records), content.getvalue())], random)


def _changed(kind: Any, value: Any, random: Random) -> Any:
    """A record with one value, at any level, replaced by another one of its type."""
    if isinstance(kind, list):
        if "null" in kind and random.random() < 0.15:
            return None
        rest = [each for each in kind if each != "null"]
        return _changed(rest[0], value, random) if value is not None and len(rest) == 1 else value
    name = kind["type"] if isinstance(kind, dict) else kind
    match name:
        case "record" if kind["fields"]:
            fields = {each["name"]: each["type"] for each in kind["fields"]}
            chosen = random.choice(list(fields))
            return value | {chosen: _changed(fields[chosen], value[chosen], random)}
        case "array" if value and random.random() < 0.7:
            place = random.randrange(len(value))
            return [*value[:place], _changed(kind["items"], value[place], random), *value[place + 1 :]]
        case "array":
            return random.choice([[], value * 2, value[::-1]])
        case "int":
            return random.choice([each for each in _NUMBERS if -(2**31) <= each < 2**31])
        case "long":
            return random.choice(_NUMBERS)
        case "string":
            return random.choice(
                ["", "\x00", "puffin", "PUFFIN", value + "\x00", "x" * 5000, "é\n\x1b[31m", value[:-1]]
            )
        case "bytes":
            return random.choice([b"", b"\x00", b"\xff" * 3, b"\xff" * 8, bytes(9), random.randbytes(200)])
        case "boolean":
            return not value
    return value


def _with_frame(parsed: AvroFile, random: Random) -> bytes:
    """Wrong counts, lengths, markers and metadata."""
    count, block = parsed.blocks[0] if parsed.blocks else (1, b"")
    match random.choice(["count", "behind", "end", "sync", "codec", "metadata", "length", "empty blocks", "no schema"]):
        case "count":
            return replace(parsed, blocks=((random.choice(_NUMBERS), block),)).to_bytes()
        case "behind":
            return replace(parsed, blocks=((count, block + random.randbytes(3)),)).to_bytes()
        case "end":
            return parsed.to_bytes() + random.randbytes(random.choice([1, 20]))
        case "sync":
            return parsed.to_bytes()[:-1] + b"!"
        case "codec":
            name = random.choice([b"lzma", b"", b"\xff", b"deflate", b"snappy", b"zstandard", b"bzip2", b"xz"])
            return replace(parsed, metadata=parsed.metadata | {"avro.codec": name}).to_bytes()
        case "metadata":
            other = {f"key {number}": random.randbytes(10) for number in range(random.choice([1, 2000]))}
            return replace(parsed, metadata=parsed.metadata | other).to_bytes()
        case "length":
            whole = parsed.to_bytes()
            start = whole.index(parsed.sync) + _SYNC_BYTES
            return whole[:start] + varint(count) + varint(random.choice(_NUMBERS)) + block + parsed.sync
        case "empty blocks":
            return replace(parsed, blocks=((0, b""), *parsed.blocks, (0, b""))).to_bytes()
    return replace(parsed, metadata={"avro.codec": b"null"}).to_bytes()


def _bomb(parsed: AvroFile, random: Random) -> bytes:
    """Small files that claim to hold much."""
    count, block = parsed.blocks[0] if parsed.blocks else (1, b"")
    if random.random() < 0.5:
        schema = json.loads(parsed.metadata["avro.schema"])
        item: Any = random.choice(["null", {"type": "record", "name": "nothing", "fields": []}])
        schema["fields"].append({"name": "many", "field-id": 99_999, "type": {"type": "array", "items": item}})
        text = json.dumps(schema).encode()
        claimed = varint(random.choice([10**6, 2**31 - 1, 2**40])) + b"\x00"
        return replace(
            parsed, metadata=parsed.metadata | {"avro.schema": text}, blocks=((count, block + claimed),)
        ).to_bytes()
    codec, compress = random.choice([("deflate", _deflate), ("zstandard", zstandard.compress)])
    copies = 40_000_000 // max(1, len(block))
    blocks = ((copies * count, block * copies) if random.random() < 0.5 else (count, bytes(40_000_000)),)
    return replace(parsed, metadata=parsed.metadata | {"avro.codec": codec.encode()}, blocks=blocks).to_bytes(compress)
