"""What encoders write, held back until it is known which part of the file it is.

An encoder writes whole stripes and, when it is closed, the last stripe and a tail. Where stripes end is told by their
own footers: the lengths of the streams add up to the bytes before them. Stripes go to the sink as soon as they are
complete, timestamps merged. The file gets one tail, whatever the number of encoders.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from formatkit.contract.storage import SinkStream
from formatkit.errors import InternalError
from formatkit.formats.orc.compression import Codec, CompressionError, decompress
from formatkit.formats.orc.encoder_form import EncoderType
from formatkit.formats.orc.merged_timestamps import MergedStripe, TimestampMerge
from formatkit.formats.orc.protobuf import Message, ProtobufError
from formatkit.formats.orc.stripes import StreamKind, StripeFooter, parse_stripe_footer
from formatkit.formats.orc.tail import MAGIC, Stripe, parse_stripes, read_postscript
from formatkit.formats.orc.written_tail import WrittenTail

__all__ = ["EncoderOutput"]

_MOST_FOOTER_PIECES = 64
_MOST_POSTSCRIPT_BYTES = 256


class _Pieces:
    """Bytes in pieces, which are not put together if they need not be.

    Attributes:
        size: How many bytes there are.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        *self._starts, self.size = accumulate(map(len, pieces), initial=0)

    def between(self, start: int, end: int) -> list[memoryview]:
        """The bytes from an offset to another, in pieces."""
        first, last = bisect_right(self._starts, start) - 1, bisect_left(self._starts, end)
        pieces = zip(self._starts[first:last], self._pieces[first:last], strict=True)
        return [memoryview(piece)[max(start - offset, 0) : end - offset] for offset, piece in pieces]

    def joined(self, start: int, end: int | None = None) -> memoryview:
        """The same as one, by default up to the end."""
        return memoryview(b"".join(self.between(max(start, 0), self.size if end is None else end)))


class _Lengths(NamedTuple):
    """How many bytes the parts of a stripe have."""

    of_index: int
    of_data: int
    of_footer: int


class EncoderOutput:
    """The file object that encoders write to, one after the other. They may not publish the file; only the writer may.

    pyarrow closes its output and writes a tail whenever an encoder is dropped, also after a failure.

    Attributes:
        column_bytes: The bytes of the streams of each column, indexes included, by the number of its type.
        stripes: The stripes, once the encoder that wrote them has ended.
    """

    def __init__(self, stream: SinkStream, location: str, codec: Codec, block_bytes: int) -> None:
        self._stream = stream
        self._location = location
        self._codec = codec
        self._block_bytes = block_bytes
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._passed_on = 0
        self._tail = WrittenTail(codec, block_bytes)
        self._merge = TimestampMerge((), codec, block_bytes)
        self._encoder_bytes = 0
        self._lengths: list[_Lengths] = []
        self.closed = False
        self.column_bytes: Counter[int] = Counter()
        self.stripes: list[Stripe] = []

    # What an encoder needs of a file.

    def write(self, data: bytes | memoryview) -> int:
        if not self.closed:
            self._held.append(bytes(data))
            self._held_bytes += len(data)
        return len(data)

    def tell(self) -> int:
        return self._passed_on + self._held_bytes

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    # What the writer needs.

    def begin(self, types: Sequence[EncoderType]) -> None:
        """Expect what an encoder of these types writes."""
        self._merge = TimestampMerge(types, self._codec, self._block_bytes)
        self._encoder_bytes = 0
        self._lengths = []
        if self._passed_on == 0:
            self._send(MAGIC)

    def pass_on(self) -> None:
        """Hand the stripes that are complete to the sink; to be called when the encoder is between batches."""
        if not self._held:
            return
        held = self._taken()
        pieces = held[1:] if self._encoder_bytes == 0 and held[:1] == [MAGIC] else held
        self._encoder_bytes += sum(map(len, held))
        for stripe, footer in reversed(list(self._stripes(pieces))):
            self._complete_stripe(stripe, footer)

    def end(self) -> None:
        """Take the last stripe and the tail of the encoder; to be called when it was closed."""
        start = self._encoder_bytes
        rest = _Pieces(self._taken())
        postscript = read_postscript(rest.joined(rest.size - _MOST_POSTSCRIPT_BYTES), start + rest.size, self._location)
        end = rest.size - postscript.bytes
        footer_start = end - postscript.footer_bytes
        footer = self._decompressed(rest.joined(footer_start, end))
        stripes = parse_stripes(Message(footer))
        for stripe in stripes:
            if stripe.offset >= start:
                stripe_end = stripe.end - start
                stored_footer = rest.joined(stripe_end - stripe.footer_bytes, stripe_end)
                stored = rest.between(stripe.offset - start, stripe_end)
                self._complete_stripe(stored, self._stripe_footer(stored_footer))
        self._add_stripes([stripe.rows for stripe in stripes])
        statistics = self._decompressed(rest.joined(footer_start - postscript.statistics_bytes, footer_start))
        self._tail.add(footer, statistics, bytes(rest.joined(end)[:-1]), self._merge)

    def finish(self, metadata: Mapping[str, str]) -> int:
        """Write the tail, publish the file and return its size; to be called when the last encoder has ended."""
        self._send(self._tail.encode(self.stripes, metadata))
        self.closed = True
        self._stream.close()
        return self._passed_on

    def abort(self) -> None:
        self.closed = True
        self._taken()
        self._stream.abort()

    def _taken(self) -> list[bytes]:
        held, self._held, self._held_bytes = self._held, [], 0
        return held

    def _send(self, data: bytes | memoryview) -> None:
        self._stream.write(data)
        self._passed_on += len(data)

    def _stripes(self, pieces: Sequence[bytes]) -> Iterator[tuple[Sequence[bytes], StripeFooter]]:
        """The stripes that the pieces are, and their footers, from the last to the first."""
        offsets = list(accumulate(map(len, pieces), initial=0))
        starts = set(offsets)
        end = len(pieces)
        while end > 0:
            for first in range(end - 1, max(end - 1 - _MOST_FOOTER_PIECES, -1), -1):
                footer = self._footer_or_none(b"".join(pieces[first:end]))
                if footer is not None and (start := offsets[first] - _stream_bytes(footer)) in starts:
                    begin = offsets.index(start)
                    yield pieces[begin:end], footer
                    end = begin
                    break
            else:
                raise InternalError(f"the encoder of {self._location} wrote something that is no stripe")

    def _footer_or_none(self, stored: bytes) -> StripeFooter | None:
        try:
            return self._stripe_footer(memoryview(stored))
        except (CompressionError, ProtobufError):
            return None

    def _stripe_footer(self, stored: memoryview) -> StripeFooter:
        return parse_stripe_footer(Message(self._decompressed(stored)), 0)

    def _decompressed(self, stored: memoryview) -> bytes:
        return decompress(stored, self._codec, self._block_bytes)

    def _complete_stripe(self, pieces: Sequence[bytes | memoryview], footer: StripeFooter) -> None:
        if self._merge.needed:
            stripe = self._merge.stripe(b"".join(pieces), footer)
        else:
            stripe = MergedStripe(pieces, footer.streams)
        for piece in stripe.content:
            self._send(piece)
        for stream in stripe.streams:
            self.column_bytes[stream.column] += stream.range.length
        self._lengths.append(_lengths(stripe))

    def _add_stripes(self, rows: Sequence[int]) -> None:
        for lengths, count in zip(self._lengths, rows, strict=True):
            before = self.stripes[-1] if self.stripes else None
            self.stripes.append(
                Stripe(
                    index=len(self.stripes),
                    offset=before.end if before else len(MAGIC),
                    index_bytes=lengths.of_index,
                    data_bytes=lengths.of_data,
                    footer_bytes=lengths.of_footer,
                    first_row=before.first_row + before.rows if before else 0,
                    rows=count,
                )
            )


def _lengths(stripe: MergedStripe) -> _Lengths:
    index = sum(one.range.length for one in stripe.streams if one.kind >= StreamKind.ROW_INDEX)
    streams = sum(one.range.length for one in stripe.streams)
    return _Lengths(index, streams - index, sum(map(len, stripe.content)) - streams)


def _stream_bytes(footer: StripeFooter) -> int:
    return sum(stream.range.length for stream in footer.streams)
