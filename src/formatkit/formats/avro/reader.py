"""Opens Avro files and reads them: which blocks, which columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow.types import arrow_schema
from formatkit.contract.metadata_columns import POS
from formatkit.contract.options import OpenOptions, ReadOptions
from formatkit.contract.results import BatchStream, ReadResult
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import ConfigurationError, UnsupportedError, enough_memory
from formatkit.formats.avro.avro_types import parse_schema
from formatkit.formats.avro.codecs import CODECS, MAX_BLOCK_BYTES
from formatkit.formats.avro.container import Block, Header, RowOrdinals, blocks, opening_range, read_header
from formatkit.formats.avro.decoding import Decoding
from formatkit.formats.avro.encryption import decrypting_source
from formatkit.formats.avro.failures import corrupt
from formatkit.formats.avro.program import compile_program
from formatkit.formats.avro.schema import FileSchema, file_schema
from formatkit.formats.avro.stored_types import stored_types

__all__ = ["AvroDataFile", "AvroReader"]

_SCHEMA = "avro.schema"
_DECODER = "read.avro.decoder"
_DECODERS = ("compiled", "interpreted")
_BLOCK_LIMIT = "read.avro.max-block-bytes"


class AvroReader:
    """Opens Avro files for Arrow batches."""

    def open(self, source: ByteSource, options: OpenOptions) -> AvroDataFile:
        if options.encryption is not None:
            source = decrypting_source(source, options.encryption)
        header = read_header(source)
        if _SCHEMA not in header.metadata:
            raise corrupt(source.location, "its header has no schema")
        root = parse_schema(header.metadata[_SCHEMA], source.location)
        columns = file_schema(root, source.location, stored_types(header.metadata))
        return AvroDataFile(source, header, columns)

    def opening_ranges(self, size: int) -> Sequence[ByteRange]:
        """The head, where the schema is."""
        return (opening_range(size),)


class AvroDataFile:
    """One Avro file. Its header was read; reads share nothing but the places of blocks."""

    def __init__(self, source: ByteSource, header: Header, columns: FileSchema) -> None:
        self._source = source
        self._header = header
        self._columns = columns
        self._ordinals = RowOrdinals(source, header)

    @property
    def schema(self) -> Schema:
        return self._columns.schema

    @property
    def unreadable(self) -> Mapping[int, str]:
        return self._columns.unreadable

    @property
    def row_count(self) -> None:
        """Not known: only the blocks, all over the file, say how many rows they have."""

    @property
    def split_offsets(self) -> tuple[int, ...]:
        return ()

    @property
    def metadata(self) -> Mapping[str, str]:
        return {
            name: value.decode("utf-8", "replace")
            for name, value in self._header.metadata.items()
            if not name.startswith("avro.")
        }

    def read(self, options: ReadOptions) -> ReadResult[pa.RecordBatch]:
        if self._header.codec not in CODECS:
            message = (
                f"{self._source.location}: is compressed with {self._header.codec!r}; known are {', '.join(CODECS)}"
            )
            raise UnsupportedError(message, location=self._source.location)
        counters: dict[str, Any] = {}
        decoding = Decoding(
            location=self._source.location,
            codec=self._header.codec,
            program=compile_program(self._columns.root, self._columns.columns, options.projection.fields),
            schema=arrow_schema(options.projection),
            positions=any(field.field_id == POS.field_id for field in options.projection.fields),
            batch_rows=options.batch_rows,
            block_limit=_block_limit(options.properties),
            decoder=_decoder(options.properties),
            counters=counters,
        )
        return ReadResult(
            batches=BatchStream(self._batches(decoding, blocks(self._source, self._header, options.split))),
            residual=options.predicate,
            counters=counters,
        )

    def _batches(self, decoding: Decoding, found: Iterator[Block]) -> Iterator[pa.RecordBatch]:
        with enough_memory(self._source.location):
            first = next(found, None)
            if first is not None:
                first_row = self._ordinals.before(first.offset) if decoding.positions else 0
                yield from decoding.batches(_chain(first, found), first_row)

    def describe(self) -> Mapping[str, Any]:
        count, rows = self._ordinals.totals()
        return {
            "codec": self._header.codec,
            "blocks": count,
            "rows": rows,
            "marker": self._header.sync.hex(),
            "avro_schema": json.loads(self._header.metadata[_SCHEMA]),
        }

    def close(self) -> None:
        """Nothing stays open between reads."""


def _chain(first: Block, rest: Iterator[Block]) -> Iterator[Block]:
    yield first
    yield from rest


def _block_limit(properties: Mapping[str, str]) -> int:
    text = properties.get(_BLOCK_LIMIT)
    if text is None:
        return MAX_BLOCK_BYTES
    if not text.isdecimal():
        raise ConfigurationError(f"{_BLOCK_LIMIT} must be a number of bytes, not {text!r}")
    return int(text)


def _decoder(properties: Mapping[str, str]) -> str | None:
    name = properties.get(_DECODER)
    if name is not None and name not in _DECODERS:
        raise ConfigurationError(f"{_DECODER} must be one of {', '.join(_DECODERS)}, not {name!r}")
    return name
