"""Makes one column of timestamps of the three types by which the encoder was given it.

A struct holds the nulls, its first field the seconds, its second the nanoseconds. Streams are taken as they are; only
what speaks of columns is written anew: types, statistics, row indexes and the footers of stripes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from formatkit.contract.storage import ByteRange
from formatkit.formats.orc.compression import Codec, decompress, frame
from formatkit.formats.orc.encoder_form import EncoderType, Part
from formatkit.formats.orc.protobuf import Message, encode, field_values, zigzag
from formatkit.formats.orc.stripes import Stream, StreamKind, StripeFooter
from formatkit.formats.orc.timestamps import ORC_EPOCH

__all__ = ["MergedStripe", "TimestampMerge"]

_KEPT = {
    Part.NULLS: (StreamKind.PRESENT, StreamKind.ROW_INDEX),
    Part.SECONDS: (StreamKind.DATA,),
    Part.REST: (StreamKind.SECONDARY,),
}
_KIND, _SUBTYPES, _NAMES = 1, 2, 3
_COUNT, _INTEGERS, _TIMESTAMPS, _HAS_NULL = 1, 2, 9, 10


@dataclass(frozen=True)
class MergedStripe:
    """The bytes of a stripe, its footer at their end, and where its streams are, seen from its start."""

    content: Sequence[bytes | memoryview]
    streams: Sequence[Stream]


class TimestampMerge:
    """Merges what an encoder wrote.

    Args:
        types: Its types.
        codec: How it compresses.
        block_bytes: The longest part that is compressed at once.
    """

    def __init__(self, types: Sequence[EncoderType], codec: Codec, block_bytes: int) -> None:
        self._types = types
        self._codec = codec
        self._block_bytes = block_bytes
        # A run of integers begins at a byte, which may lie in a compressed block, and a value in the run.
        self._integer_positions = 2 if codec is Codec.NONE else 3
        self.needed = any(one.part is not Part.WHOLE for one in types)

    def stripe(self, stored: bytes, footer: StripeFooter) -> MergedStripe:
        """A stripe whose streams were at the places that `footer` tells, seen from its start."""
        content = memoryview(stored)
        found = {(one.kind, one.column): content[one.range.offset : one.range.end] for one in footer.streams}
        streams: list[Stream] = []
        parts: list[bytes | memoryview] = []
        position = 0
        for (kind, column), stream in found.items():
            one = self._types[column]
            if one.part is not Part.WHOLE and kind not in _KEPT[one.part]:
                continue
            if one.part is Part.NULLS and kind == StreamKind.ROW_INDEX:
                parts.append(self._row_index(*(found[kind, column + place] for place in range(3))))
            else:
                parts.append(stream)
            streams.append(Stream(kind, one.number, ByteRange(position, len(parts[-1]))))
            position = streams[-1].range.end
        encodings = zip(self._types, footer.encodings, strict=True)
        merged = encode(
            [
                *((1, encode([(1, one.kind), (2, one.column), (3, one.range.length)])) for one in streams),
                *((2, encoding) for one, encoding in encodings if one.part in (Part.WHOLE, Part.REST)),
                (3, footer.timezone.encode()),
            ]
        )
        return MergedStripe([*parts, frame(merged, self._codec, self._block_bytes)], streams)

    def types(self, stored: Sequence[bytes]) -> list[bytes]:
        """The types of the file."""
        return [
            self._timestamp_type(stored[place], stored[place + 2])
            if one.part is Part.NULLS
            else encode(self._renumbered(stored[place]))
            for place, one in self._of_the_file()
        ]

    def statistics(self, stored: Sequence[bytes]) -> list[bytes]:
        """Statistics of columns, one for each type of the file."""
        return [
            _timestamp_statistics(stored[place], stored[place + 1]) if one.part is Part.NULLS else stored[place]
            for place, one in self._of_the_file()
        ]

    def _of_the_file(self) -> Iterator[tuple[int, EncoderType]]:
        return ((place, one) for place, one in enumerate(self._types) if one.part in (Part.WHOLE, Part.NULLS))

    def _timestamp_type(self, nulls: bytes, rest: bytes) -> bytes:
        kept = [pair for pair in field_values(nulls) if pair[0] not in (_KIND, _SUBTYPES, _NAMES)]
        return encode([(_KIND, Message(rest).integer(_KIND)), *kept])

    def _renumbered(self, stored: bytes) -> Iterator[tuple[int, int | bytes]]:
        for number, value in field_values(stored):
            if number != _SUBTYPES:
                yield number, value
        for subtype in Message(stored).integers(_SUBTYPES):
            yield _SUBTYPES, self._types[subtype].number

    def _row_index(self, nulls: memoryview, seconds: memoryview, rest: memoryview) -> bytes:
        contents = (decompress(one, self._codec, self._block_bytes) for one in (nulls, seconds, rest))
        entries = zip(*(Message(content).messages(1) for content in contents), strict=True)
        return frame(encode((1, self._entry(*entry)) for entry in entries), self._codec, self._block_bytes)

    def _entry(self, nulls: Message, seconds: Message, rest: Message) -> bytes:
        """Positions in the streams of nulls, seconds and nanoseconds, in this order, and statistics."""
        last = -self._integer_positions
        positions = [*nulls.integers(1), *seconds.integers(1)[last:], *rest.integers(1)[last:]]
        statistics = _timestamp_statistics(nulls.content(2), seconds.content(2))
        return encode([*((1, position) for position in positions), (2, statistics)])


def _timestamp_statistics(nulls: bytes, seconds: bytes) -> bytes:
    """The bounds are milliseconds that are a second wider at most, as nothing else is known of the moments."""
    counted = Message(nulls)
    stored = Message(Message(seconds).content(_INTEGERS))
    lowest, highest = stored.signed(1), stored.signed(2)
    bounds = b""
    if lowest is not None and highest is not None:
        # Seconds before 1970 are rounded up, others down.
        lower = lowest + ORC_EPOCH - (lowest + ORC_EPOCH <= 0)
        upper = highest + ORC_EPOCH
        bounds = encode([(3, zigzag(lower * 1000)), (4, zigzag(upper * 1000 + 999 * (upper >= 0)))])
    return encode([(_COUNT, counted.integer(_COUNT)), (_TIMESTAMPS, bounds), (_HAS_NULL, counted.integer(_HAS_NULL))])
