"""Avro container files taken apart: the header's map, and blocks whose datums are trees where no codec hides them."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from random import Random
from typing import Any

from formatkit.formats.parquet.thrift import varint
from support.mutations import json as json_tree
from support.mutations.tree import Edit, Node, edit

__all__ = ["AvroFile", "Block"]

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_FIXED = {"float": 4, "double": 8}


@dataclass
class Block:
    """Rows: the datums as a tree, or the stored bytes if a codec that is not undone here compressed them."""

    count: Node
    length: Node
    content: Node
    sync: bytes


@dataclass
class AvroFile:
    """A container file; `codec` is what the header names."""

    metadata: dict[str, bytes]
    sync: bytes
    blocks: list[Block] = field(default_factory=list)
    codec: str = "null"
    prefix: bytes = _MAGIC

    @classmethod
    def parse(cls, data: bytes) -> AvroFile:
        at = len(_MAGIC)
        metadata: dict[str, bytes] = {}
        while True:
            count, at = _long(data, at)
            if not count:
                break
            if count < 0:
                _, at = _long(data, at)
            for _ in range(abs(count)):
                key, at = _bytes(data, at)
                metadata[key.decode()], at = _bytes(data, at)
        file = cls(metadata, data[at : at + _SYNC_BYTES], codec=metadata.get("avro.codec", b"null").decode())
        at += _SYNC_BYTES
        types = Types(json.loads(metadata["avro.schema"]))
        while at < len(data):
            count, at = _long(data, at)
            content, at = _bytes(data, at)
            file.blocks.append(
                Block(
                    Node("int", count), Node("int", len(content)), file._datums(content, count, types), data[at:][:16]
                )
            )
            at += _SYNC_BYTES
        return file

    def _datums(self, content: bytes, count: int, types: Types) -> Node:
        if self.codec == "deflate":
            content = zlib.decompress(content, -15)
        elif self.codec != "null":
            return Node("raw", content)
        rows = []
        at = 0
        for _ in range(count):
            row, at = types.parse(types.root, content, at)
            rows.append(row)
        return Node("struct", rows)

    def edit(self, random: Random) -> tuple[str, Edit]:
        """Change one place; returns the structure it is in."""
        match random.choice(["schema", "header", "block", "datum", "datum", "datum"]):
            case "schema":
                name = random.choice([key for key, value in self.metadata.items() if value[:1] in (b"{", b"[")])
                tree = json_tree.parse(self.metadata[name])
                done = edit(tree, random)
                self.metadata[name] = json_tree.encode(tree)
                return "header", Edit(f"metadata.{name}{done.path}", done.what)
            case "header":
                return "header", self._edit_header(random)
            case "block" if self.blocks:
                return "block", self._edit_block(random)
        if not self.blocks:
            return "header", self._edit_header(random)
        number = random.randrange(len(self.blocks))
        done = edit(self.blocks[number].content, random)
        return "datum", Edit(f"blocks[{number}]{done.path}", done.what)

    def _edit_header(self, random: Random) -> Edit:
        name = random.choice(list(self.metadata))
        match random.randrange(5):
            case 0:
                del self.metadata[name]
                return Edit(f"metadata.{name}", "removed")
            case 1:
                self.metadata["avro.codec"] = random.choice(
                    [b"", b"null", b"deflate", b"snappy", b"zstandard", b"x\xff"]
                )
                return Edit("metadata.avro.codec", f"became {self.metadata['avro.codec']!r}")
            case 2:
                self.sync = random.randbytes(_SYNC_BYTES)
                return Edit("sync", "is another one")
            case 3:
                self.prefix = random.choice([b"Obj\x02", b"Obj", b"", _MAGIC * 2])
                return Edit("magic", f"became {self.prefix!r}")
        node = Node("bytes", self.metadata[name])
        done = edit(node, random)
        self.metadata[name] = node.value if isinstance(node.value, bytes) else str(node.value).encode()
        return Edit(f"metadata.{name}", done.what)

    def _edit_block(self, random: Random) -> Edit:
        number = random.randrange(len(self.blocks))
        block = self.blocks[number]
        match random.randrange(6):
            case 0:
                self.blocks.insert(random.randrange(len(self.blocks)), block)
                return Edit(f"blocks[{number}]", "doubled")
            case 1:
                del self.blocks[number]
                return Edit(f"blocks[{number}]", "removed")
            case 2:
                block.sync = random.randbytes(_SYNC_BYTES)
                return Edit(f"blocks[{number}].sync", "is another one")
            case 3:
                done = edit(block.length, random)
                block.length.edited = True
                return Edit(f"blocks[{number}].length", done.what)
        done = edit(block.count, random)
        return Edit(f"blocks[{number}].count", done.what)

    def to_bytes(self) -> bytes:
        output = bytearray(self.prefix)
        if self.metadata:
            output += _zigzag(len(self.metadata))
        for name, value in self.metadata.items():
            output += _sized(name.encode()) + _sized(value)
        output += b"\0" + self.sync
        for block in self.blocks:
            content = encode_datum(block.content)
            if self.codec == "deflate":
                packer = zlib.compressobj(wbits=-15)
                content = packer.compress(content) + packer.flush()
            length = encode_datum(block.length) if block.length.edited else _zigzag(len(content))
            output += encode_datum(block.count) + length + content + block.sync
        return bytes(output)


class Types:
    """The types of a schema; named ones are found by their names."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._named: dict[str, Any] = {}
        self._collect(root)

    def _collect(self, kind: Any) -> None:
        if isinstance(kind, list):
            for branch in kind:
                self._collect(branch)
        elif isinstance(kind, dict):
            if "name" in kind:
                self._named[kind["name"]] = kind
            for part in [kind.get("items"), kind.get("values"), *(each["type"] for each in kind.get("fields", ()))]:
                if part is not None:
                    self._collect(part)

    def parse(self, kind: Any, data: bytes, at: int, key: Any = None) -> tuple[Node, int]:
        """The value at a place as a tree, and where it ends."""
        if isinstance(kind, list):
            branch, at = _long(data, at)
            value, at = self.parse(kind[branch], data, at, "value")
            return Node("struct", [Node("int", branch, "branch"), value], key), at
        name = kind["type"] if isinstance(kind, dict) else kind
        if isinstance(name, dict | list):
            return self.parse(name, data, at, key)
        if name in self._named and not (isinstance(kind, dict) and kind.get("name") == name):
            kind = self._named[name]
            name = kind["type"]
        if name == "record":
            children = []
            for each in kind["fields"]:
                child, at = self.parse(each["type"], data, at, each["name"])
                children.append(child)
            return Node("struct", children, key), at
        if name in ("array", "map"):
            return self._collection(kind, name, data, at, key)
        return _leaf(kind, name, data, at, key)

    def _collection(self, kind: Any, name: str, data: bytes, at: int, key: Any) -> tuple[Node, int]:
        items: list[Node] = []
        while True:
            count, at = _long(data, at)
            if not count:
                return Node("list", items, key), at
            if count < 0:
                _, at = _long(data, at)
            for _ in range(abs(count)):
                if name == "map":
                    text, at = _bytes(data, at)
                    item, at = self.parse(kind["values"], data, at, "value")
                    item = Node("struct", [Node("bytes", text, "key"), item])
                else:
                    item, at = self.parse(kind["items"], data, at)
                items.append(item)


def _leaf(kind: Any, name: str, data: bytes, at: int, key: Any) -> tuple[Node, int]:
    match name:
        case "null":
            return Node("null", None, key), at
        case "boolean":
            return Node("bool", data[at] == 1, key), at + 1
        case "int" | "long" | "enum":
            value, at = _long(data, at)
            return Node("int", value, key), at
        case "bytes" | "string":
            content, at = _bytes(data, at)
            return Node("bytes", content, key), at
    size = kind["size"] if name == "fixed" else _FIXED[name]
    return Node("raw", data[at : at + size], key), at + size


def encode_datum(root: Node) -> bytes:
    """The bytes of a value; Avro stores no types, so one of another type is simply there."""
    output = bytearray()
    pending: list[Any] = [root]
    while pending:
        step = pending.pop()
        if isinstance(step, bytes):
            output += step
            continue
        match step.kind:
            case "int":
                output += _zigzag(step.value)
            case "bytes":
                length = len(step.value) if step.claim is None else step.claim
                output += _zigzag(length) + step.value
            case "raw":
                output += step.value
            case "bool":
                output.append(1 if step.value else 0)
            case "struct":
                pending += reversed(step.value)
            case "list":
                count = len(step.value) if step.claim is None else step.claim
                pending += [b"\0", *reversed(step.value), _zigzag(count) if count else b""]
    return bytes(output)


def _long(data: bytes, at: int) -> tuple[int, int]:
    raw, at = varint(data, at)
    return (raw >> 1) ^ -(raw & 1), at


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _long(data, at)
    return data[at : at + length], at + length


def _zigzag(value: int) -> bytes:
    value = (value << 1) ^ (value >> 127)
    value &= (1 << 70) - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _sized(content: bytes) -> bytes:
    return _zigzag(len(content)) + content
