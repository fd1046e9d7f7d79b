"""What the encoder writes, held back until it is known which part of the file it is.

The encoder writes whole stripes and, when it is closed, the last stripe and the tail. Where stripes end is told by
their own footers: the lengths of the streams add up to the bytes before them. The tail is completed with the pairs that
the user wants to store, which pyarrow has no way to write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate

from formatkit.contract.storage import SinkStream
from formatkit.errors import InternalError
from formatkit.formats.orc.compression import Codec, CompressionError, decompress, frame
from formatkit.formats.orc.protobuf import Message, ProtobufError, encode, encode_field, field_values
from formatkit.formats.orc.stripes import StripeFooter, parse_stripe_footer
from formatkit.formats.orc.tail import MAGIC, PostScript, Stripe, parse_stripes, read_postscript

__all__ = ["EncoderOutput"]

_MOST_FOOTER_PIECES = 64


class EncoderOutput:
    """The file object that the encoder writes to. The encoder may not publish the file; only the writer may.

    pyarrow closes its output and writes a tail whenever an encoder is dropped, also after a failure.

    Attributes:
        column_bytes: The bytes of the streams of each column, indexes included, by the number of its type.
        stripes: The stripes, once the file is finished.
    """

    def __init__(self, stream: SinkStream, location: str, codec: Codec, block_bytes: int) -> None:
        self._stream = stream
        self._location = location
        self._codec = codec
        self._block_bytes = block_bytes
        self._held: list[bytes] = []
        self._size = 0
        self._passed_on = 0
        self.closed = False
        self.column_bytes: Counter[int] = Counter()
        self.stripes: tuple[Stripe, ...] = ()

    # What the encoder needs of a file.

    def write(self, data: bytes | memoryview) -> int:
        if not self.closed:
            self._held.append(bytes(data))
            self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    # What the writer needs.

    def pass_on(self) -> None:
        """Hand the stripes that are complete to the sink; to be called when the encoder is between batches."""
        held, self._held = self._held, []
        stripes = held[1:] if self._passed_on == 0 and held[:1] == [MAGIC] else held
        for footer in self._footers(stripes):
            self._count(footer)
        for piece in held:
            self._send(piece)

    def finish(self, metadata: Mapping[str, str]) -> int:
        """Complete the tail, publish the file and return its size; to be called when the encoder was closed."""
        rest = b"".join(self._held)
        start = self._passed_on
        postscript = read_postscript(memoryview(rest), self._size, self._location)
        end = len(rest) - postscript.bytes
        footer = decompress(memoryview(rest)[end - postscript.footer_bytes : end], self._codec, self._block_bytes)
        self.stripes = parse_stripes(Message(footer))
        for stripe in self.stripes:
            if stripe.offset >= start:
                stored = memoryview(rest)[stripe.footer.offset - start : stripe.footer.end - start]
                self._count(self._stripe_footer(bytes(stored)))
        self._send(rest[: end - postscript.footer_bytes])
        self._send(_completed_tail(footer, metadata, postscript, rest[end : len(rest) - 1]))
        self.closed = True
        self._stream.close()
        return self._passed_on

    def abort(self) -> None:
        self.closed = True
        self._held = []
        self._stream.abort()

    def _send(self, data: bytes) -> None:
        self._stream.write(data)
        self._passed_on += len(data)

    def _footers(self, pieces: Sequence[bytes]) -> list[StripeFooter]:
        """The footers of the stripes that the pieces are, found from the last to the first."""
        offsets = list(accumulate(map(len, pieces), initial=0))
        starts = set(offsets)
        footers = []
        end = len(pieces)
        while end > 0:
            for first in range(end - 1, max(end - 1 - _MOST_FOOTER_PIECES, -1), -1):
                footer = self._footer_or_none(b"".join(pieces[first:end]))
                if footer is not None and (start := offsets[first] - _stream_bytes(footer)) in starts:
                    footers.append(footer)
                    end = offsets.index(start)
                    break
            else:
                raise InternalError(f"the encoder of {self._location} wrote something that is no stripe")
        return footers

    def _footer_or_none(self, stored: bytes) -> StripeFooter | None:
        try:
            return self._stripe_footer(stored)
        except (CompressionError, ProtobufError):
            return None

    def _stripe_footer(self, stored: bytes) -> StripeFooter:
        return parse_stripe_footer(Message(decompress(memoryview(stored), self._codec, self._block_bytes)), 0)

    def _count(self, footer: StripeFooter) -> None:
        for stream in footer.streams:
            self.column_bytes[stream.column] += stream.range.length


def _stream_bytes(footer: StripeFooter) -> int:
    return sum(stream.range.length for stream in footer.streams)


def _completed_tail(footer: bytes, metadata: Mapping[str, str], postscript: PostScript, stored: bytes) -> bytes:
    """Footer and postscript, with the pairs of the user."""
    pairs = [encode([(1, key.encode()), (2, value.encode())]) for key, value in metadata.items()]
    completed = footer + b"".join(encode_field(5, pair) for pair in pairs)
    framed = frame(completed, postscript.codec, postscript.block_bytes)
    fields = [(number, len(framed) if number == 1 else value) for number, value in field_values(stored)]
    end = encode(fields)
    assert end.endswith(MAGIC)  # noqa: S101
    return framed + end + bytes((len(end),))
