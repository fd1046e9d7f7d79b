"""What a Puffin file says about its blobs."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from formatkit.contract.storage import ByteSource
from formatkit.errors import CorruptFileError, UnsupportedError

__all__ = ["MAGIC", "BlobMetadata", "Footer", "read_footer"]

MAGIC: Final = b"PFA1"

_TRAILER = struct.Struct("<iI4s")
_COMPRESSED = 1
_READ_AT_ONCE = 8192


@dataclass(frozen=True, kw_only=True)
class BlobMetadata:
    """One blob of a Puffin file.

    Attributes:
        type: What it is, such as ``deletion-vector-v1``.
        fields: Ids of the columns that it was computed of.
        snapshot_id: The snapshot that it was computed of; −1 if that follows from the manifest.
        sequence_number: Of that snapshot; −1 likewise.
        offset: Where it begins in the file.
        length: How many bytes it has there.
        compression_codec: ``lz4``, ``zstd`` or None.
        properties: Whatever else its type wants said.
    """

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The object of the footer."""
        described: dict[str, Any] = {
            "type": self.type,
            "fields": list(self.fields),
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "offset": self.offset,
            "length": self.length,
        }
        if self.compression_codec is not None:
            described["compression-codec"] = self.compression_codec
        if self.properties:
            described["properties"] = dict(self.properties)
        return described


@dataclass(frozen=True, kw_only=True)
class Footer:
    """The end of a Puffin file."""

    blobs: tuple[BlobMetadata, ...]
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The footer from its first magic to its last."""
        document: dict[str, Any] = {"blobs": [blob.to_json() for blob in self.blobs]}
        if self.properties:
            document["properties"] = dict(self.properties)
        payload = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        return MAGIC + payload + _TRAILER.pack(len(payload), 0, MAGIC)


def read_footer(source: ByteSource) -> Footer:
    """Read the footer of a Puffin file: one read of its end, or two if it describes many blobs.

    Raises:
        CorruptFileError: It is no Puffin file, or the footer does not say what it must.
        UnsupportedError: The footer is compressed.
    """
    size = source.size()
    smallest = 2 * len(MAGIC) + _TRAILER.size
    if size < smallest:
        _fail(source, f"it has {size} bytes, fewer than the {smallest} of an empty one")
    end = bytes(source.read(size - min(size, _READ_AT_ONCE), min(size, _READ_AT_ONCE)))
    length, flags, magic = _TRAILER.unpack(end[-_TRAILER.size :])
    if magic != MAGIC or bytes(source.read(0, len(MAGIC))) != MAGIC:
        _fail(source, f"it does not begin and end with {MAGIC.decode()}")
    if flags & _COMPRESSED:
        message = f"{source.location}: the footer is compressed with LZ4, which is not read; write it uncompressed"
        raise UnsupportedError(message, location=source.location)
    if flags:
        _fail(source, f"the footer has the unknown flags {flags:#x}")
    start = size - _TRAILER.size - length - len(MAGIC)
    if length < 0 or start < len(MAGIC):
        _fail(source, f"the footer claims {length} bytes of the {size} of the file")
    if size - start > len(end):
        end = bytes(source.read(start, size - start))
    whole = end[len(end) - (size - start) :]
    if not whole.startswith(MAGIC):
        _fail(source, f"the footer does not begin with {MAGIC.decode()}")
    return _parsed(source, whole[len(MAGIC) : -_TRAILER.size], start)


def _parsed(source: ByteSource, payload: bytes, footer_start: int) -> Footer:
    try:
        document = json.loads(payload)
        footer = Footer(
            blobs=tuple(_blob(each) for each in document["blobs"]),
            properties=_strings(document.get("properties")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _fail(source, f"the footer does not describe blobs: {type(error).__name__}: {error}", error)
    for blob in footer.blobs:
        if not len(MAGIC) <= blob.offset <= blob.offset + blob.length <= footer_start:
            _fail(source, f"the blob of {blob.length} bytes at byte {blob.offset} is not before the footer")
    return footer


def _blob(described: Any) -> BlobMetadata:
    codec = described.get("compression-codec")
    return BlobMetadata(
        type=_typed(described["type"], str),
        fields=tuple(_typed(each, int) for each in _typed(described["fields"], list)),
        snapshot_id=_typed(described["snapshot-id"], int),
        sequence_number=_typed(described["sequence-number"], int),
        offset=_typed(described["offset"], int),
        length=_typed(described["length"], int),
        compression_codec=None if codec is None else _typed(codec, str),
        properties=_strings(described.get("properties")),
    )


def _strings(described: Any) -> dict[str, str]:
    pairs = {} if described is None else _typed(described, dict)
    return {key: _typed(value, str) for key, value in pairs.items()}


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r:.80} where {kind.__name__} is wanted")
    return value


def _fail(source: ByteSource, what: str, cause: Exception | None = None) -> NoReturn:
    message = f"{source.location}: is a corrupt Puffin file: {what}"
    raise CorruptFileError(message, location=source.location) from cause
