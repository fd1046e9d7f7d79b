"""Avro files of table metadata, written as pyiceberg writes them, in about half the time."""

from __future__ import annotations

import io
import zlib
from types import TracebackType
from typing import Generic, Self, TypeVar

from pyiceberg.avro.codecs.deflate import DeflateCodec
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.typedef import StructProtocol

__all__ = ["MetadataOutput"]

D = TypeVar("D", bound=StructProtocol)


def _encoded(number: int) -> bytes:
    """A number in zigzag order, seven bits to a byte."""
    rest = (number << 1) ^ (number >> 63)
    digits = bytearray()
    while rest > 0x7F:
        digits.append((rest & 0x7F) | 0x80)
        rest >>= 7
    digits.append(rest)
    return bytes(digits)


# Lengths, counts, ids of columns and branches of unions: most numbers in a manifest.
_SMALL = tuple(map(_encoded, range(1 << 13)))


class _Encoder(BinaryEncoder):
    """Puts each number at once, where pyiceberg puts byte by byte."""

    def __init__(self, output: io.BytesIO) -> None:
        super().__init__(output)
        self._put = output.write

    def write_int(self, integer: int) -> None:
        self._put(_SMALL[integer] if 0 <= integer < len(_SMALL) else _encoded(integer))

    def write_bytes(self, b: bytes) -> None:
        self.write_int(len(b))
        self._put(b)


class MetadataOutput(AvroOutputFile[D], Generic[D]):
    """A manifest or a manifest list that is being written. An exception inside its ``with`` block leaves no file."""

    def __enter__(self) -> Self:
        try:
            super().__enter__()
        except BaseException as error:
            if hasattr(self, "output_stream"):
                self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def write_block(self, objects: list[D]) -> None:
        buffer = io.BytesIO()
        encoder = _Encoder(buffer)
        for each in objects:
            self.writer.write(encoder, each)
        self.encoder.write_int(len(objects))
        self.encoder.write_bytes(self._compressed(buffer.getvalue()))
        self.encoder.write(self.sync_bytes)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.output_stream.__exit__(kind, error, trace)

    def _compressed(self, content: bytes) -> bytes:
        codec = self.compression_codec()
        if codec is DeflateCodec:
            # pyiceberg leaves a part of a checksum behind the data.
            return zlib.compress(content, wbits=-zlib.MAX_WBITS)
        return content if codec is None else codec.compress(content)[0]
