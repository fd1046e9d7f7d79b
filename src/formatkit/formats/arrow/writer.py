"""Writes Arrow IPC files: ids in the fields' metadata, key-value pairs in the schema's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from formatkit.batches.arrow.file_schema import arrow_schema_with_ids, without_unknown
from formatkit.batches.arrow.file_writing import ArrowFileWriter, EncoderOutput
from formatkit.contract.fields import check_stored_depth
from formatkit.contract.options import DEFAULT_BATCH_ROWS, WriteOptions
from formatkit.contract.storage import ByteSink
from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.formats.arrow.file_layout import MAGIC

__all__ = ["ArrowWriter"]

LAYOUT = "write.arrow.layout"
CODEC = "write.arrow.compression-codec"
LEVEL = "write.arrow.compression-level"
BATCH_ROWS = "write.arrow.record-batch-rows"

_LAYOUTS = ("file", "stream")
_CODECS = ("lz4", "zstd", "none")
# Arrow refuses record batches with more.
_MAX_LEVELS = 64


class ArrowWriter:
    """Creates Arrow IPC files from Arrow batches.

    Properties: ``write.arrow.layout`` (file or stream), ``write.arrow.compression-codec`` (lz4, zstd or none),
    ``write.arrow.compression-level`` (of zstd), ``write.arrow.record-batch-rows`` (the most rows of a record batch).
    """

    def open(self, sink: ByteSink, options: WriteOptions) -> ArrowFileWriter:
        if options.encryption is not None:
            raise UnsupportedError(f"{sink.location}: Arrow files cannot be encrypted", location=sink.location)
        layout = _one_of(options.properties, LAYOUT, _LAYOUTS)
        codec = _codec(options.properties)
        batch_rows = _number(options.properties, BATCH_ROWS, DEFAULT_BATCH_ROWS, at_least=1)
        stored = without_unknown(options.schema)
        if not stored.fields:
            message = (
                f"{sink.location}: the schema has no column that Arrow files can store; they count rows by columns"
            )
            raise UnsupportedError(message, location=sink.location)
        check_stored_depth(stored, limit=_MAX_LEVELS, of_list=1, of_map=2)
        schema = arrow_schema_with_ids(stored).with_metadata(dict(options.metadata))
        output = EncoderOutput(sink.create(overwrite=options.overwrite))
        encoder = _Encoder(output, schema, layout, codec, batch_rows)
        return ArrowFileWriter(output, encoder, stored, sink, options)


class _Encoder:
    """pyarrow's writer of either layout."""

    def __init__(
        self, output: EncoderOutput, schema: pa.Schema, layout: str, codec: pa.Codec | None, batch_rows: int
    ) -> None:
        self._output = output
        self._schema = schema
        self._batch_rows = batch_rows
        new_writer = ipc.new_file if layout == "file" else ipc.new_stream
        options = ipc.IpcWriteOptions(compression=codec, use_threads=False)
        self._writer = new_writer(output, schema, options=options)  # type: ignore[arg-type]  # a file object will do
        # The schema is written together with the first record batch, and in files after their magic bytes.
        self._offsets: list[int] | None = [] if layout == "file" else None
        self._first_offset = _padded(len(MAGIC)) + schema.serialize().size

    def write(self, batch: pa.RecordBatch) -> None:
        # The same columns under a schema that has ids; types differ in field metadata only.
        for start in range(0, batch.num_rows, self._batch_rows):
            part = batch.slice(start, self._batch_rows)
            if self._offsets is not None:
                self._offsets.append(self._output.tell() or self._first_offset)
            self._writer.write_batch(pa.RecordBatch.from_arrays(part.columns, schema=self._schema))

    def finish(self) -> tuple[int, ...] | None:
        self._writer.close()
        return None if self._offsets is None else tuple(self._offsets)


def _padded(length: int) -> int:
    return -(-length // 8) * 8


def _codec(properties: Mapping[str, str]) -> pa.Codec | None:
    name: Any = _one_of(properties, CODEC, _CODECS)
    if LEVEL in properties and name == "zstd":
        return pa.Codec(name, _number(properties, LEVEL, 0, at_least=-(2**17)))
    return None if name == "none" else pa.Codec(name)


def _one_of(properties: Mapping[str, str], key: str, words: tuple[str, ...]) -> str:
    """The value of a property in lower case; the first word is the default."""
    word = properties.get(key, words[0]).lower()
    if word not in words:
        raise ConfigurationError(f"{key} is {word!r}; it can be: {', '.join(words)}")
    return word


def _number(properties: Mapping[str, str], key: str, default: int, *, at_least: int) -> int:
    text = properties.get(key, str(default))
    try:
        number = int(text)
    except ValueError:
        number = at_least - 1
    if number < at_least:
        raise ConfigurationError(f"{key} is {text!r}; it must be a whole number of at least {at_least}")
    return number
