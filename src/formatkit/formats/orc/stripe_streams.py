"""The contents of some streams of a stripe, decompressed, where compiled code reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from formatkit.formats.orc.compression import Codec, decompress_into
from formatkit.formats.orc.decoder_room import DecoderRoom
from formatkit.formats.orc.failures import corrupt
from formatkit.formats.orc.kernels.numbers import SLACK
from formatkit.formats.orc.stripe_reads import StripeReads
from formatkit.formats.orc.stripes import Stream, StreamKind, StripeFooter, range_of, side_by_side
from formatkit.formats.orc.tail import Tail

__all__ = ["Content", "Contents", "stream_contents"]


class Content(NamedTuple):
    """Where the content of a stream is, and how long it is."""

    address: int
    size: int

    @property
    def end(self) -> int:
        return self.address + self.size


Contents = Mapping[tuple[int, int], Content]
"""Contents by the number of a column's type and the kind of the stream."""


def stream_contents(
    reads: StripeReads, tail: Tail, footer: StripeFooter, columns: Collection[int], room: DecoderRoom
) -> Contents:
    """Read all streams of some columns. They stay what they are until the room is used again.

    Args:
        reads: The stripe.
        tail: The tail of the file.
        footer: The footer of the stripe.
        columns: The numbers of their types.
        room: Where to put them; some bytes behind each can be read as well.
    """
    room.clear()
    wanted = [stream for stream in footer.streams if stream.column in columns and stream.kind < StreamKind.ROW_INDEX]
    places: dict[tuple[int, int], tuple[int, int]] = {}
    for group in side_by_side(wanted):
        for stream, start, end in _laid_out(reads, tail, group, room):
            key = (stream.column, stream.kind)
            if key in places:
                raise corrupt(tail.location, f"a column has two streams of the kind {stream.kind}")
            places[key] = (start, end)
    room.extend(SLACK)
    return {key: Content(room.address + start, end - start) for key, (start, end) in places.items()}


def _laid_out(
    reads: StripeReads, tail: Tail, streams: list[Stream], room: DecoderRoom
) -> list[tuple[Stream, int, int]]:
    """Put the contents of streams that lie side by side into a room; where each begins and ends there."""
    whole, codec = range_of(streams), tail.postscript.codec
    if codec is Codec.NONE:
        start = room.end - whole.offset
        reads.fill(whole, room.extend(whole.length))
        return [(stream, start + stream.range.offset, start + stream.range.end) for stream in streams]
    content, found = reads.read(whole), []
    for stream in streams:
        start, place = room.end, stream.range.offset - whole.offset
        part = content[place : place + stream.range.length]
        decompress_into(room, part, codec, tail.postscript.block_bytes)
        found.append((stream, start, room.end))
    return found
