"""Decodes the Avro files of table metadata: manifest lists and manifests."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from pyiceberg.avro.codecs import AVRO_CODEC_KEY, KNOWN_CODECS
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.reader import DefaultReader, OptionReader, Reader, StructReader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from formatkit.errors import CorruptFileError, UnsupportedError

__all__ = ["AvroRecords", "Pick"]

Pick = tuple["int | tuple[int, Pick]", ...]
"""Ids of the fields to decode, in the order wanted; a pair picks inside a struct."""


class AvroRecords:
    """The records of one Avro file, with the picked fields by position; a field that the file lacks is None.

    Unlike a reader that takes the end of the bytes for the end of the data, this one notices a file that was cut off.
    """

    def __init__(self, data: bytes, location: str, pick: Pick) -> None:
        self._data = data
        self._location = location
        self._decoder = new_decoder(data)
        with _corruption(location):
            if not data.startswith(b"Obj\x01"):
                message = f"{location} is not an Avro file"
                raise CorruptFileError(message, location=location)
            self._header: AvroFileHeader = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(self._decoder)
            self.file_schema, self._reader = _compile(self._header.meta["avro.schema"], pick)

    def __iter__(self) -> Iterator[Record]:
        decompress = self._decompressor()
        decoder = self._decoder
        end = len(self._data)
        with _corruption(self._location):
            while decoder.tell() < end:
                count = decoder.read_int()
                block = new_decoder(decompress(decoder.read_bytes()))
                if decoder.read(SYNC_SIZE) != self._header.sync:
                    message = f"{self._location} is damaged: a block does not end with the file's sync marker"
                    raise CorruptFileError(message, location=self._location)
                for _ in range(count):
                    yield self._reader.read(block)

    def _decompressor(self) -> Any:
        name = self._header.meta.get(AVRO_CODEC_KEY, "null")
        if name not in KNOWN_CODECS:
            message = f"{self._location} is compressed with {name!r}; known are: {', '.join(KNOWN_CODECS)}"
            raise UnsupportedError(message, location=self._location)
        codec = KNOWN_CODECS[name]
        return bytes if codec is None else codec.decompress


@lru_cache(maxsize=64)
def _compile(avro_schema: str, pick: Pick) -> tuple[Schema, Reader]:
    """The file's schema and a reader of the picked fields; the manifests of a table share a few schemas."""
    schema = AvroSchemaConversion().avro_to_iceberg(json.loads(avro_schema))
    return schema, _picking_reader(schema.as_struct(), pick)


def _picking_reader(struct: StructType, pick: Pick) -> Reader:
    """A reader that steps over what is not picked. pyiceberg's own resolution cannot step over a map."""
    insides = dict(each if isinstance(each, tuple) else (each, None) for each in pick)
    positions = {field_id: position for position, field_id in enumerate(insides)}
    readers: list[tuple[int | None, Reader]] = []
    for field in struct.fields:
        inside = insides.get(field.field_id)
        reader: Reader
        if inside is not None and isinstance(field.field_type, StructType):
            reader = _picking_reader(field.field_type, inside)
        else:
            reader = construct_reader(field.field_type)
        readers.append((positions.pop(field.field_id, None), reader if field.required else OptionReader(reader)))
    readers += [(position, DefaultReader(None)) for position in positions.values()]
    return StructReader(tuple(readers), Record, struct)


@contextmanager
def _corruption(location: str) -> Iterator[None]:
    try:
        yield
    except CorruptFileError:
        raise
    except (EOFError, IndexError, KeyError, ResolveError, TypeError, ValueError, zlib.error) as error:
        message = f"{location} cannot be decoded as Avro: {type(error).__name__}: {error}"
        raise CorruptFileError(message, location=location) from error
