"""Builds ORC files in memory that hold some columns of one stripe and nothing else, for pyarrow to decode.

pyarrow finds nested columns by dotted names only, which may be ambiguous, and opens files by itself. A file that holds
exactly what is wanted needs neither: the streams are copied as they are, types get numbers for names. Every length was
checked before the decoder sees it, and only the bytes of the wanted columns are read.

It is also how timestamps are read that nanoseconds since 1970 cannot hold, which is what pyarrow makes of all
timestamps. A timestamp is stored as two streams, seconds and nanoseconds. The seconds are read as if they were a column
of longs. The nanoseconds are read as timestamps all of whose seconds are zero.

Maps become lists of structs, which are stored alike: pyarrow ends the process if a key of a map is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from formatkit.contract.storage import ByteRange
from formatkit.formats.orc.compression import frame
from formatkit.formats.orc.failures import corrupt
from formatkit.formats.orc.projection import Wanted
from formatkit.formats.orc.protobuf import Message, encode, encode_varint
from formatkit.formats.orc.segmented_file import Segment
from formatkit.formats.orc.stripes import Stream, StreamKind, StripeFooter
from formatkit.formats.orc.tail import MAGIC, Kind, Stripe, Tail

__all__ = ["ColumnFiles", "Timestamps"]

_TIMESTAMPS = (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)
_TEXT = (Kind.VARCHAR, Kind.CHAR)
_VERSION = bytes((0, 12))
_LENGTH_FOLLOWS = encode_varint(3 << 3)
_DIRECT, _DIRECT_V2 = 0, 2
_DIRECT_ENCODING = encode([(1, _DIRECT)])
_ZEROS_RUN = {_DIRECT: (130, b"\x7f\x00\x00"), _DIRECT_V2: (512, b"\xc1\xff\x00\x00")}
"""The longest run of zeros in both versions of the integer encoding, and how many values it stands for."""


_SegmentT = TypeVar("_SegmentT", bound=Segment)


class Timestamps(Enum):
    """What to read of timestamps."""

    WHOLE = "whole"
    SECONDS = "seconds"
    NANOS = "nanos"


@dataclass(frozen=True)
class _Node:
    """A type of the file in memory, and the type whose streams it has, if it has any."""

    type_id: int | None
    kind: Kind
    encoded: bytes


class ColumnFiles:
    """Builds files of some columns, one for each stripe.

    Args:
        tail: The tail of the file.
        wanted: The columns.
        timestamps: What to read of timestamps.
    """

    def __init__(self, tail: Tail, wanted: Sequence[Wanted], timestamps: Timestamps) -> None:
        self._tail = tail
        self._timestamps = timestamps
        nodes: list[_Node] = []
        _add_struct(nodes, 0, [one for one in wanted if one.stored], timestamps)
        self._nodes = nodes
        self._numbers = {node.type_id: number for number, node in enumerate(nodes) if node.type_id is not None}
        self._types = encode((4, node.encoded) for node in nodes)
        self._headers: dict[tuple[int, int], bytes | None] = {}

    @property
    def has_all_types(self) -> bool:
        return len(self._numbers) == len(self._tail.types)

    @property
    def has_any_column(self) -> bool:
        return len(self._nodes) > 1

    def ranges(self, footer: StripeFooter) -> list[ByteRange]:
        """The bytes of one stripe that are read, in stored order."""
        streams = (stream for stream in footer.streams if self._header(stream) is not None)
        return _joined([stream.range for stream in streams if stream.range.length])

    def build(self, stripe: Stripe, footer: StripeFooter, values: Mapping[int, int]) -> list[Segment]:
        """The file of one stripe, in segments.

        Args:
            stripe: Which stripe.
            footer: Its footer.
            values: For nanoseconds, how many values each column of timestamps has, by type.
        """
        self._check_encodings(footer)
        parts: list[Segment] = []
        entries: list[bytes] = []
        for stream in footer.streams:
            if (header := self._header(stream)) is not None:
                part = self._part(footer, stream, values)
                parts.append(part)
                entries.append(header + encode_varint(_length(part)))
        return [MAGIC, *_joined(parts), self._tail_of(stripe, footer, entries, sum(map(_length, parts)))]

    def _header(self, stream: Stream) -> bytes | None:
        """How its entry in the footer of the stripe begins, all but its length; None if it is not wanted."""
        key = (stream.kind, stream.column)
        if key not in self._headers:
            self._headers[key] = None
            if self._is_wanted(stream):
                number = self._numbers[stream.column]
                self._headers[key] = encode([(1, stream.kind), (2, number)]) + _LENGTH_FOLLOWS
        return self._headers[key]

    def _is_wanted(self, stream: Stream) -> bool:
        if stream.column not in self._numbers or stream.kind >= StreamKind.ROW_INDEX:
            return False
        is_time = self._nodes[self._numbers[stream.column]].kind is not self._tail.types[stream.column].kind
        return not (self._timestamps is Timestamps.SECONDS and is_time and stream.kind == StreamKind.SECONDARY)

    def _is_timestamp_data(self, stream: Stream) -> bool:
        return stream.kind == StreamKind.DATA and self._tail.types[stream.column].kind in _TIMESTAMPS

    def _check_encodings(self, footer: StripeFooter) -> None:
        for node in self._nodes:
            if node.kind in _TIMESTAMPS:
                encoding = Message(_encoding(node, footer)).integer(1)
                if encoding not in _ZEROS_RUN:
                    raise corrupt(self._tail.location, f"timestamps are stored in the encoding {encoding}")

    def _part(self, footer: StripeFooter, stream: Stream, values: Mapping[int, int]) -> Segment:
        if self._timestamps is Timestamps.NANOS and self._is_timestamp_data(stream):
            return self._zeros(footer, stream, values)
        return stream.range

    def _zeros(self, footer: StripeFooter, stream: Stream, values: Mapping[int, int]) -> bytes:
        run, encoded = _ZEROS_RUN[Message(footer.encodings[stream.column]).integer(1)]
        postscript = self._tail.postscript
        return frame(encoded * -(-values[stream.column] // run), postscript.codec, postscript.block_bytes)

    def _tail_of(self, stripe: Stripe, footer: StripeFooter, entries: Sequence[bytes], data_bytes: int) -> bytes:
        postscript = self._tail.postscript
        stripe_footer = encode(
            [
                *((1, entry) for entry in entries),
                *((2, _encoding(node, footer)) for node in self._nodes),
                (3, footer.timezone.encode()),
            ]
        )
        stored_stripe_footer = frame(stripe_footer, postscript.codec, postscript.block_bytes)
        stripe_entry = [(1, len(MAGIC)), (2, 0), (3, data_bytes), (4, len(stored_stripe_footer)), (5, stripe.rows)]
        content_bytes = len(MAGIC) + data_bytes + len(stored_stripe_footer)
        before_types = encode([(1, len(MAGIC)), (2, content_bytes), (3, encode(stripe_entry))])
        behind_types = encode([(6, stripe.rows), (8, 0), (9, self._tail.writer)])
        file_footer = before_types + self._types + behind_types
        stored_footer = frame(file_footer, postscript.codec, postscript.block_bytes)
        end = encode(
            [
                (1, len(stored_footer)),
                (2, postscript.codec),
                (3, postscript.block_bytes),
                (4, _VERSION),
                (5, 0),
                (6, postscript.writer_version),
                (8000, MAGIC),
            ]
        )
        return b"".join((stored_stripe_footer, stored_footer, end, bytes((len(end),))))


def _length(part: Segment) -> int:
    return part.length if isinstance(part, ByteRange) else len(part)


def _joined(parts: Sequence[_SegmentT]) -> list[_SegmentT]:
    """The parts, those that lie side by side in the file as one."""
    joined: list[Any] = []
    for part in parts:
        before = joined[-1] if joined else b""
        if isinstance(part, ByteRange) and isinstance(before, ByteRange) and before.end == part.offset:
            joined[-1] = ByteRange(before.offset, before.length + part.length)
        else:
            joined.append(part)
    return joined


def _encoding(node: _Node, footer: StripeFooter) -> bytes:
    return _DIRECT_ENCODING if node.type_id is None else footer.encodings[node.type_id]


def _add(nodes: list[_Node], wanted: Wanted, timestamps: Timestamps) -> None:
    type_id, stored = wanted.column.type_id, wanted.column.type
    number = len(nodes)
    if stored.kind is Kind.STRUCT:
        _add_struct(nodes, type_id, wanted.decoded, timestamps)
    elif stored.kind is Kind.MAP:
        nodes.append(_Node(type_id, Kind.LIST, encode([(1, Kind.LIST), (2, number + 1)])))
        _add_struct(nodes, None, wanted.children, timestamps)
    elif stored.kind is Kind.LIST:
        nodes.append(_Node(type_id, Kind.LIST, encode([(1, Kind.LIST), (2, number + 1)])))
        _add(nodes, wanted.children[0], timestamps)
    else:
        kind = Kind.STRING if stored.kind in _TEXT else stored.kind
        if stored.kind in _TIMESTAMPS and timestamps is Timestamps.SECONDS:
            kind = Kind.LONG
        digits = [(5, stored.precision), (6, stored.scale)] if kind is Kind.DECIMAL else []
        nodes.append(_Node(type_id, kind, encode([(1, kind), *digits])))


def _add_struct(nodes: list[_Node], type_id: int | None, children: Sequence[Wanted], timestamps: Timestamps) -> None:
    number = len(nodes)
    nodes.append(_Node(type_id, Kind.STRUCT, b""))
    subtypes = []
    for child in children:
        subtypes.append((2, len(nodes)))
        _add(nodes, child, timestamps)
    names = [(3, str(i).encode()) for i in range(len(children))]
    nodes[number] = _Node(type_id, Kind.STRUCT, encode([(1, Kind.STRUCT), *subtypes, *names]))
