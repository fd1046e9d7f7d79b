"""The footer of a file: found, checked, and read once for all reads of the file."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

from formatkit.contract.options import Encryption
from formatkit.contract.storage import ByteSource
from formatkit.errors import ConfigurationError, CorruptFileError, FormatkitError, UnsupportedError
from formatkit.formats.parquet.compact import schema_structs
from formatkit.formats.parquet.elements import Element

__all__ = ["Footer", "read_footer", "reading"]

_ARROW_SCHEMA_KEY = "ARROW:schema"
_HIDDEN_ARROW_SCHEMA_KEY = "ARROW:SCHEMA"

_MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"
_TAIL = struct.Struct("<I4s")
_FIRST_READ_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Footer:
    """What the footer says.

    Attributes:
        metadata: Row groups and column chunks, as pyarrow reads them.
        elements: The schema, flattened depth first.
        decryption: What every reader of an encrypted file needs; None for a plain file.
    """

    metadata: pq.FileMetaData
    elements: tuple[Element, ...]
    decryption: Any = None

    @property
    def key_values(self) -> dict[str, str]:
        """The key-value pairs of the file."""
        pairs = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in self._pairs()}
        if _HIDDEN_ARROW_SCHEMA_KEY in pairs:
            pairs[_ARROW_SCHEMA_KEY] = pairs.pop(_HIDDEN_ARROW_SCHEMA_KEY)
        return pairs

    def _pairs(self) -> Iterable[tuple[bytes, bytes]]:
        return (self.metadata.metadata or {}).items()


@contextmanager
def reading(location: str) -> Iterator[None]:
    """Turn what pyarrow raises about unusable bytes into errors that name the file."""
    try:
        yield
    except FormatkitError:
        raise
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"{location}: cannot be decoded: {error}", location=location) from error
    except pa.ArrowException as error:
        raise CorruptFileError(f"{location}: is not a readable Parquet file: {error}", location=location) from error
    except OSError as error:
        # A failure of the storage has a number; pyarrow reports broken pages without one.
        if error.errno is not None:
            raise
        if "no file decryptor" in str(error):
            msg = f"{location}: has encrypted columns; its key is needed to read them (OpenOptions.encryption)"
            raise ConfigurationError(msg, location=location) from error
        raise CorruptFileError(f"{location}: is not a readable Parquet file: {error}", location=location) from error


def read_footer(source: ByteSource, encryption: Encryption | None) -> Footer:
    """Read the footer. Raises `CorruptFileError` for a file that has none."""
    footer, magic = _footer_bytes(source)
    location = source.location
    if encryption is None:
        if magic == _ENCRYPTED_MAGIC:
            msg = f"{location}: is encrypted; its key is needed to open it (OpenOptions.encryption)"
            raise ConfigurationError(msg, location=location)
        elements = _elements(footer, location)
        with reading(location):
            metadata = pq.read_metadata(pa.BufferReader(_as_file(_without_arrow_schema(footer))))
        return Footer(metadata=metadata, elements=elements)
    decryption = _decryption(encryption, location)
    with reading(location), closing(source.open()) as file:
        metadata = pq.ParquetFile(file, decryption_properties=decryption).metadata
        if magic == _ENCRYPTED_MAGIC:
            footer = _decrypted(metadata)
    return Footer(metadata=metadata, elements=_elements(footer, location), decryption=decryption)


def _footer_bytes(source: ByteSource) -> tuple[bytes, bytes]:
    location, size = source.location, source.size()
    if size < len(_MAGIC) + _TAIL.size:
        msg = f"{location}: is not a Parquet file: it has {size} bytes, and no Parquet file is that short"
        raise CorruptFileError(msg, location=location)
    tail = source.read(size - (length := min(size, _FIRST_READ_BYTES)), length)
    footer_length, magic = _TAIL.unpack_from(tail, length - _TAIL.size)
    if magic not in (_MAGIC, _ENCRYPTED_MAGIC):
        begins = bytes(source.read(0, len(_MAGIC)))
        msg = f"{location}: is not a Parquet file: it ends with {magic!r} and begins with {begins!r}"
        if begins == _MAGIC:
            msg = f"{location}: is a truncated Parquet file: it begins with {begins!r} but ends with {magic!r}"
        raise CorruptFileError(msg, location=location)
    start = size - _TAIL.size - footer_length
    if start < len(_MAGIC):
        msg = f"{location}: is corrupt: its footer claims {footer_length} bytes, the file has {size}"
        raise CorruptFileError(msg, location=location)
    if footer_length > length - _TAIL.size:
        return bytes(source.read(start, footer_length)), magic
    return bytes(tail[length - _TAIL.size - footer_length : length - _TAIL.size]), magic


def _elements(footer: bytes, location: str) -> tuple[Element, ...]:
    try:
        return tuple(Element.from_thrift(fields) for fields in schema_structs(footer))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError, struct.error) as error:
        msg = f"{location}: is corrupt: the schema in its footer cannot be decoded ({error!r})"
        raise CorruptFileError(msg, location=location) from error


def _as_file(footer: bytes) -> bytes:
    """The least that pyarrow takes for a Parquet file."""
    return b"".join((_MAGIC, footer, _TAIL.pack(len(footer), _MAGIC)))


def _without_arrow_schema(footer: bytes) -> bytes:
    """Hide the Arrow schema that Arrow's writers store, so that types depend on the Parquet schema only."""
    # As Thrift stores it: a string field of twelve bytes. Key-value pairs come after the row groups.
    prefix = b"\x18\x0c"
    at = footer.rfind(prefix + _ARROW_SCHEMA_KEY.encode())
    if at < 0:
        return footer
    end = at + len(prefix) + len(_ARROW_SCHEMA_KEY)
    return b"".join((footer[:at], prefix, _HIDDEN_ARROW_SCHEMA_KEY.encode(), footer[end:]))


def _decryption(encryption: Encryption, location: str) -> Any:
    try:
        return pe.create_decryption_properties(  # type: ignore[attr-defined]  # the stubs lack it
            encryption.key, aad_prefix=encryption.aad_prefix or None
        )
    except ValueError as error:
        raise ConfigurationError(f"{location}: the key cannot be used: {error}", location=location) from error


def _decrypted(metadata: pq.FileMetaData) -> bytes:
    """The footer as pyarrow decrypted it."""
    sink = io.BytesIO()
    metadata.write_metadata_file(sink)
    data = sink.getvalue()
    length, _ = _TAIL.unpack_from(data, len(data) - _TAIL.size)
    return data[-_TAIL.size - length : -_TAIL.size]
