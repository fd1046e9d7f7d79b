"""The footer of a stripe: which streams it holds, of which columns, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import UnsupportedError
from formatkit.formats.orc.compression import decompress
from formatkit.formats.orc.failures import corrupt
from formatkit.formats.orc.protobuf import Message, integers
from formatkit.formats.orc.tail import Stripe, Tail

__all__ = [
    "UTC",
    "Stream",
    "StreamKind",
    "StripeFooter",
    "parse_stripe_footer",
    "range_of",
    "read_stripe_footer",
    "side_by_side",
]

UTC = "GMT"
"""UTC by the name that the decoder compares with its own; by any other it converts every value."""

_UTC_NAMES = frozenset({"", "GMT", "UTC", "Etc/UTC", "Etc/GMT", "Z"})


class StreamKind(IntEnum):
    """What a stream holds; from `ROW_INDEX` on they are indexes, which are not needed to read rows."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    DICTIONARY_COUNT = 4
    SECONDARY = 5
    ROW_INDEX = 6


class Stream(NamedTuple):
    """Some bytes of a column. `kind` is a number, because not all indexes are named here."""

    kind: int
    column: int
    range: ByteRange


@dataclass(frozen=True, kw_only=True)
class StripeFooter:
    """What a stripe says about itself.

    Attributes:
        streams: In stored order, one after the other.
        encodings: How each column is encoded, as stored.
        timezone: In which zone the writer took timestamps without zone to be, UTC always by the same name.
        stored_timezone: The same as it is stored.
    """

    streams: Sequence[Stream]
    encodings: Sequence[bytes]
    timezone: str
    stored_timezone: str


def read_stripe_footer(source: ByteSource, tail: Tail, stripe: Stripe) -> StripeFooter:
    """Read the footer and check that its streams fill the stripe."""
    stored = source.read(*stripe.footer)
    postscript = tail.postscript
    footer = Message(decompress(stored, postscript.codec, postscript.block_bytes))
    if footer.contents(4):
        raise UnsupportedError(f"{tail.location}: has encrypted columns, which cannot be read", location=tail.location)
    parsed = parse_stripe_footer(footer, stripe.offset)
    end = parsed.streams[-1].range.end if parsed.streams else stripe.offset
    if end > stripe.footer.offset:
        raise corrupt(tail.location, f"the streams of stripe {stripe.index} claim bytes behind its end")
    if len(parsed.encodings) < len(tail.types):
        found = f"{len(parsed.encodings)} encodings for {len(tail.types)} columns"
        raise corrupt(tail.location, f"stripe {stripe.index} has {found}")
    return parsed


def parse_stripe_footer(footer: Message, stripe_offset: int) -> StripeFooter:
    """The footer of a stripe that begins at an offset, unchecked."""
    streams = []
    position = stripe_offset
    for stored in footer.contents(1):
        kind, column, length = _stream(stored)
        streams.append(Stream(kind, column, ByteRange(position, length)))
        position += length
    zone = footer.text(3) or ""
    return StripeFooter(
        streams=streams,
        encodings=footer.contents(2),
        timezone=UTC if zone in _UTC_NAMES else zone,
        stored_timezone=zone,
    )


def _stream(stored: bytes) -> tuple[int, int, int]:
    """Kind, column and length."""
    fields = integers(stored)
    return fields.get(1, 0), fields.get(2, 0), fields.get(3, 0)


def side_by_side(streams: Sequence[Stream]) -> list[list[Stream]]:
    """Streams that lie one behind the other, together."""
    groups: list[list[Stream]] = []
    for stream in streams:
        if groups and groups[-1][-1].range.end == stream.range.offset:
            groups[-1].append(stream)
        else:
            groups.append([stream])
    return groups


def range_of(streams: Sequence[Stream]) -> ByteRange:
    """The bytes of streams that lie side by side."""
    start = streams[0].range.offset
    return ByteRange(start, streams[-1].range.end - start)
