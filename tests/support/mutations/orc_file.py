"""ORC files taken apart: stripes with their indexes and footers, the metadata, the footer and the postscript.

Sections are put together again as uncompressed chunks, which every codec allows, with right lengths and offsets.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from support.mutations import protobuf
from support.mutations.tree import Edit, Node, edit

__all__ = ["OrcFile"]

_MAGIC = b"ORC"
_ROW_INDEX = 6
_INDEX_STREAMS = (6, 7, 8)
_NONE, _ZLIB, _SNAPPY = 0, 1, 2
_MAX_CHUNK = 1 << 20


@dataclass
class Stripe:
    """A stripe; `streams` are the bytes of each stream of its footer, `indexes` the row indexes among them."""

    record: Node
    footer: Node
    streams: list[bytes]
    indexes: dict[int, Node] = field(default_factory=dict)


class OrcFile:
    """The parts of a file."""

    def __init__(self, data: bytes) -> None:
        end = len(data) - 1 - data[-1]
        self.postscript = protobuf.parse(data[end:-1], "PostScript")
        compression = self.postscript.get("compression")
        self._compression = compression.value if compression else _NONE
        footer_start = end - self.postscript["footerLength"].value
        metadata = self.postscript.get("metadataLength")
        metadata_start = footer_start - (metadata.value if metadata else 0)
        self.footer = protobuf.parse(self._plain(data[footer_start:end]), "Footer")
        self.metadata = protobuf.parse(self._plain(data[metadata_start:footer_start]), "Metadata")
        self.stripes = [self._stripe(data, child) for child in self.footer.value if child.key == "stripes"]

    def _stripe(self, data: bytes, record: Node) -> Stripe:
        at = record["offset"].value
        body = record["indexLength"].value + record["dataLength"].value
        footer_bytes = data[at + body : at + body + record["footerLength"].value]
        stripe = Stripe(record, protobuf.parse(self._plain(footer_bytes), "StripeFooter"), [])
        for stream in (child for child in stripe.footer.value if child.key == "streams"):
            length = stream["length"].value
            content = data[at : at + length]
            kind = stream.get("kind")
            if kind is not None and kind.value == _ROW_INDEX:
                stripe.indexes[len(stripe.streams)] = protobuf.parse(self._plain(content), "RowIndex")
            stripe.streams.append(content)
            at += length
        return stripe

    def edit(self, random: Random) -> tuple[str, Edit]:
        """Change one place; returns the structure it is in."""
        number = random.randrange(len(self.stripes))
        stripe = self.stripes[number]
        choices = ["postscript", "footer", "footer", "metadata", "stripe_footer", "stripe_footer", "stream"]
        choice = random.choice([*choices, *(["row_index"] if stripe.indexes else [])])
        if choice in ("postscript", "footer", "metadata"):
            return choice, edit(getattr(self, choice), random)
        if choice == "stripe_footer":
            done = edit(stripe.footer, random)
            return choice, Edit(f"stripes[{number}].footer{done.path}", done.what)
        if choice == "row_index":
            place = random.choice(list(stripe.indexes))
            done = edit(stripe.indexes[place], random)
            return choice, Edit(f"stripes[{number}].streams[{place}]{done.path}", done.what)
        place = random.randrange(len(stripe.streams))
        content = Node("raw", stripe.streams[place])
        done = edit(content, random)
        stripe.streams[place] = content.value if isinstance(content.value, bytes) else b""
        return choice, Edit(f"stripes[{number}].streams[{place}]", done.what)

    def to_bytes(self) -> bytes:
        output = bytearray(_MAGIC)
        for stripe in self.stripes:
            self._write_stripe(stripe, output)
        _set(self.footer, "contentLength", len(output))
        metadata = self._chunked(protobuf.encode(self.metadata))
        footer = self._chunked(protobuf.encode(self.footer))
        _set(self.postscript, "metadataLength", len(metadata))
        _set(self.postscript, "footerLength", len(footer))
        postscript = protobuf.encode(self.postscript)
        return bytes(output) + metadata + footer + postscript + bytes([len(postscript) & 0xFF])

    def _write_stripe(self, stripe: Stripe, output: bytearray) -> None:
        _set(stripe.record, "offset", len(output))
        index_length = data_length = 0
        records = [child for child in stripe.footer.value if child.key == "streams"] if _whole(stripe.footer) else []
        for place, content in enumerate(stripe.streams):
            if place in stripe.indexes:
                content = self._chunked(protobuf.encode(stripe.indexes[place]))
            kind = 1
            if place < len(records) and records[place].kind == "struct":
                _set(records[place], "length", len(content))
                stored = records[place].get("kind")
                kind = stored.value if stored is not None and stored.kind == "int" else 1
            if kind in _INDEX_STREAMS and not data_length:
                index_length += len(content)
            else:
                data_length += len(content)
            output += content
        footer = self._chunked(protobuf.encode(stripe.footer))
        _set(stripe.record, "indexLength", index_length)
        _set(stripe.record, "dataLength", data_length)
        _set(stripe.record, "footerLength", len(footer))
        output += footer

    def _plain(self, data: bytes) -> bytes:
        if self._compression == _NONE:
            return data
        output, at = b"", 0
        while at < len(data):
            header = int.from_bytes(data[at : at + 3], "little")
            chunk = data[at + 3 : at + 3 + (header >> 1)]
            at += 3 + (header >> 1)
            output += chunk if header & 1 else self._decompressed(chunk)
        return output

    def _decompressed(self, chunk: bytes) -> bytes:
        if self._compression == _ZLIB:
            return zlib.decompress(chunk, -15)
        if self._compression == _SNAPPY:
            length = shift = 0
            for byte in chunk:
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            return pa.Codec("snappy").decompress(chunk, length, asbytes=True)
        raise ValueError(f"codec {self._compression} is not undone here")

    def _chunked(self, data: bytes) -> bytes:
        if self._compression == _NONE:
            return data
        pieces = [data[at : at + _MAX_CHUNK] for at in range(0, len(data), _MAX_CHUNK)]
        return b"".join((len(piece) << 1 | 1).to_bytes(3, "little") + piece for piece in pieces)


def _whole(node: Node) -> bool:
    return node.kind == "struct"


def _set(node: Node, key: str, value: int) -> None:
    """Set a number, unless the edit was made there."""
    child = node.get(key) if node.kind == "struct" else None
    if child is not None and child.kind == "int" and not child.edited:
        child.value = value
