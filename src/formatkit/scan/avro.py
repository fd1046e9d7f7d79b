"""Decodes the Avro files of table metadata: manifest lists and manifests."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from operator import methodcaller
from typing import Any

from pyiceberg.avro.codecs import AVRO_CODEC_KEY, KNOWN_CODECS
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder
from pyiceberg.avro.file import META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.reader import BinaryReader, IntegerReader, MapReader, Reader, StringReader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from formatkit.errors import CorruptFileError, UnsupportedError
from formatkit.scan.nullable_maps import NullableMapReader, usual_form

__all__ = ["AvroRecords", "Pick"]

_HEADER_READER = construct_reader(META_SCHEMA, {-1: AvroFileHeader})

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
            self._header: AvroFileHeader = _HEADER_READER.read(self._decoder)
            self.file_schema, self._reader = _compile(self._header.meta["avro.schema"], pick)

    def __iter__(self) -> Iterator[Any]:
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
    usual, maps = usual_form(json.loads(avro_schema))
    schema = AvroSchemaConversion().avro_to_iceberg(usual)
    return schema, _picking_reader(schema.as_struct(), pick, maps)


def _picking_reader(struct: StructType, pick: Pick, maps: Mapping[int, NullableMapReader]) -> Reader:
    """A reader that steps over what is not picked. pyiceberg's own resolution cannot step over a map."""
    insides = dict(each if isinstance(each, tuple) else (each, None) for each in pick)
    positions = {field_id: position for position, field_id in enumerate(insides)}
    steps: list[_Step] = []
    for field in struct.fields:
        reader: Reader | NullableMapReader
        if isinstance(field.field_type, StructType):
            everything = tuple(child.field_id for child in field.field_type.fields)
            reader = _picking_reader(field.field_type, insides.get(field.field_id) or everything, maps)
        else:
            reader = maps.get(field.field_id) or construct_reader(field.field_type)
        position = positions.get(field.field_id)
        steps.append((position, not field.required, _skip(reader) if position is None else _read(reader)))
    return _PickingReader(tuple(steps), len(insides))


_Step = tuple[int | None, bool, Callable[[BinaryDecoder], Any]]
"""Where a value goes, whether it may be null, and what reads it or steps over it."""


class _PickingReader(Reader):
    """Reads structs as plain lists; one for each of a million files, so that it does nothing but that."""

    __slots__ = ("_steps", "_width")

    def __init__(self, steps: tuple[_Step, ...], width: int) -> None:
        self._steps = steps
        self._width = width

    def read(self, decoder: BinaryDecoder) -> list[Any]:
        values: list[Any] = [None] * self._width
        for position, optional, act in self._steps:
            if optional and decoder.read_int() <= 0:
                continue
            if position is None:
                act(decoder)
            else:
                values[position] = act(decoder)
        return values

    def skip(self, decoder: BinaryDecoder) -> None:
        self.read(decoder)


def _read(reader: Reader | NullableMapReader) -> Callable[[BinaryDecoder], Any]:
    """The reader's own method, or what it calls on the decoder if that is all that it does."""
    for kind, name in _PLAIN.items():
        if isinstance(reader, kind) and type(reader).read is kind.read:
            return methodcaller(f"read_{name}")
    return reader.read


def _skip(reader: Reader | NullableMapReader) -> Callable[[BinaryDecoder], Any]:
    for kind, name in _PLAIN.items():
        if isinstance(reader, kind) and type(reader).skip is kind.skip:
            return methodcaller(f"skip_{name}")
    # Maps are read in C, but stepped over in Python.
    return reader.read if isinstance(reader, MapReader) else reader.skip


_PLAIN: dict[type[Reader], str] = {IntegerReader: "int", StringReader: "utf8", BinaryReader: "bytes"}


@contextmanager
def _corruption(location: str) -> Iterator[None]:
    try:
        yield
    except CorruptFileError:
        raise
    except (EOFError, IndexError, KeyError, ResolveError, TypeError, ValueError, zlib.error) as error:
        message = f"{location} cannot be decoded as Avro: {type(error).__name__}: {error}"
        raise CorruptFileError(message, location=location) from error
