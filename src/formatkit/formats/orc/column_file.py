"""Builds ORC files in memory that hold some columns of one stripe and nothing else, for pyarrow to decode.

pyarrow finds nested columns by dotted names only, which may be ambiguous, opens files by itself, and trusts them. A
file that holds exactly what is wanted needs none of that: types get numbers for names, streams are decompressed here,
every length is checked before the decoder sees it, and only the bytes of the wanted columns are read.

It is also how timestamps are read that nanoseconds since 1970 cannot hold, which is what pyarrow makes of all
timestamps. A timestamp is stored as two streams, seconds and nanoseconds. The seconds are read as if they were a column
of longs. The nanoseconds are read as timestamps all of whose seconds are zero.

Maps become lists of structs, which are stored alike: pyarrow ends the process if a key of a map is null. Unions become
bytes, which their tags are stored like. Branches are columns of files of their own: they have fewer values than tags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import pyarrow as pa

from formatkit.contract.storage import ByteRange
from formatkit.formats.orc.compression import Codec, decompress_into
from formatkit.formats.orc.decoder_room import DecoderRoom
from formatkit.formats.orc.failures import corrupt
from formatkit.formats.orc.projection import Wanted
from formatkit.formats.orc.protobuf import Message, encode, encode_varint
from formatkit.formats.orc.stream_check import Node, check_streams
from formatkit.formats.orc.stripes import UTC, Stream, StreamKind, StripeFooter, range_of, side_by_side
from formatkit.formats.orc.tail import MAGIC, Kind, OrcType, Tail

__all__ = ["ColumnFiles", "StoredBytes", "Timestamps"]

_TIMESTAMPS = (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)
_STORED_ALIKE = {
    Kind.VARCHAR: Kind.STRING,
    Kind.CHAR: Kind.STRING,
    Kind.GEOMETRY: Kind.BINARY,
    Kind.GEOGRAPHY: Kind.BINARY,
    Kind.UNION: Kind.BYTE,
}
_VERSION = bytes((0, 12))
_LENGTH_FOLLOWS = encode_varint(3 << 3)
_DIRECT, _DIRECT_V2 = 0, 2
_DIRECT_ENCODING, _DIRECT_V2_ENCODING = encode([(1, _DIRECT)]), encode([(1, _DIRECT_V2)])
_ZEROS_RUN = {_DIRECT: (130, b"\x7f\x00\x00"), _DIRECT_V2: (512, b"\xc1\xff\x00\x00")}
"""The longest run of zeros in both versions of the integer encoding, and how many values it stands for."""


class Timestamps(Enum):
    """What to read of timestamps."""

    WHOLE = "whole"
    SECONDS = "seconds"
    NANOS = "nanos"


class StoredBytes(Protocol):
    """The stored file."""

    def read(self, part: ByteRange) -> memoryview:
        """Some bytes, which stay what they are until the next ones are asked for."""

    def fill(self, part: ByteRange, room: memoryview) -> None:
        """Put bytes where they are wanted."""


@dataclass(frozen=True)
class _Type:
    """A type of the file in memory, and the type whose streams it has, if it has any.

    `encoding` is how these are encoded, where that is not what the footer of the stripe says.
    """

    type_id: int | None
    kind: Kind
    encoded: bytes
    encoding: bytes | None = None


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
        types: list[_Type] = []
        rows = tail.types[0]
        fields = frozenset(rows.subtypes if rows.kind is Kind.STRUCT else ())
        root = 0 if fields.issuperset(one.column.type_id for one in wanted) else None
        self._root = _add_struct(types, root, [one for one in wanted if one.stored], self._as_longs)
        self._types = types
        self._numbers = {one.type_id: number for number, one in enumerate(types) if one.type_id is not None}
        below = {one.column.type_id for column in wanted for one in column.walk() if one.stored}
        self._in_branches = below - self._numbers.keys()
        self._encoded_types = encode((4, one.encoded) for one in types)
        self._headers: dict[tuple[int, int], bytes | None] = {}

    def _as_longs(self, stored: OrcType) -> bool:
        """Whether the data of a column is read as if it were a column of longs."""
        is_seconds = stored.kind in _TIMESTAMPS and self._timestamps is Timestamps.SECONDS
        return is_seconds or self._tail.postscript.is_decimal64(stored)

    @property
    def has_all_types(self) -> bool:
        return len(self._numbers) + len(self._in_branches) == len(self._tail.types)

    @property
    def has_any_column(self) -> bool:
        return len(self._types) > 1

    def ranges(self, footer: StripeFooter) -> list[ByteRange]:
        """The bytes of one stripe that are read, those of branches included, in stored order."""
        streams = (
            stream for stream in footer.streams if self._header(stream) is not None or self._is_in_branch(stream)
        )
        return [range_of(group) for group in side_by_side([stream for stream in streams if stream.range.length])]

    def _is_in_branch(self, stream: Stream) -> bool:
        return stream.column in self._in_branches and stream.kind < StreamKind.ROW_INDEX

    def build(
        self, rows: int, footer: StripeFooter, values: Mapping[int, int], stored: StoredBytes, room: DecoderRoom
    ) -> pa.BufferReader:
        """The file of one stripe.

        Args:
            rows: How many rows it has.
            footer: The footer of the stripe.
            values: For nanoseconds, how many values each column of timestamps has, by type.
            stored: The stored file.
            room: Where to build it.
        """
        self._check_encodings(footer)
        room.clear()
        room.put(MAGIC)
        places: dict[tuple[int, int], tuple[int, int]] = {}
        entries: list[bytes] = []
        for stream, start, end in self._lay_out(footer, values, stored, room):
            key = (stream.kind, self._numbers[stream.column])
            if key in places:
                raise corrupt(self._tail.location, f"a column has two streams of the kind {stream.kind}")
            places[key] = (start, end)
            entries.append((self._header(stream) or b"") + encode_varint(end - start))
        encodings = [_encoding(one, footer) for one in self._types]
        contents = {key: room.content(*place) for key, place in places.items()}
        check_streams(self._root, rows, contents, encodings)
        room.put(self._tail_of(rows, entries, encodings, room.end - len(MAGIC)))
        return room.file()

    def _lay_out(
        self, footer: StripeFooter, values: Mapping[int, int], stored: StoredBytes, room: DecoderRoom
    ) -> Iterator[tuple[Stream, int, int]]:
        """Put the contents of streams into the room, one after the other; yields each, where it begins and ends."""
        postscript = self._tail.postscript
        is_stored_as_wanted = postscript.codec is Codec.NONE and self._timestamps is not Timestamps.NANOS
        for group in side_by_side([stream for stream in footer.streams if self._header(stream) is not None]):
            if is_stored_as_wanted:
                yield from _copied(group, stored, room)
                continue
            whole = range_of(group)
            content = stored.read(whole)
            for stream in group:
                start, place = room.end, stream.range.offset - whole.offset
                if self._timestamps is Timestamps.NANOS and self._is_timestamp_data(stream):
                    room.put(self._zeros(footer, stream, values))
                else:
                    part = content[place : place + stream.range.length]
                    decompress_into(room, part, postscript.codec, postscript.block_bytes)
                yield stream, start, room.end

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
        is_time = self._types[self._numbers[stream.column]].kind is not self._tail.types[stream.column].kind
        return not (self._timestamps is Timestamps.SECONDS and is_time and stream.kind == StreamKind.SECONDARY)

    def _is_timestamp_data(self, stream: Stream) -> bool:
        return stream.kind == StreamKind.DATA and self._tail.types[stream.column].kind in _TIMESTAMPS

    def _check_encodings(self, footer: StripeFooter) -> None:
        for one in self._types:
            if one.kind in _TIMESTAMPS:
                encoding = Message(_encoding(one, footer)).integer(1)
                if encoding not in _ZEROS_RUN:
                    raise corrupt(self._tail.location, f"timestamps are stored in the encoding {encoding}")

    def _zeros(self, footer: StripeFooter, stream: Stream, values: Mapping[int, int]) -> bytes:
        run, encoded = _ZEROS_RUN[Message(footer.encodings[stream.column]).integer(1)]
        return encoded * -(-values[stream.column] // run)

    def _tail_of(self, rows: int, entries: Sequence[bytes], encodings: Sequence[bytes], data_bytes: int) -> bytes:
        stripe_footer = encode(
            [*((1, entry) for entry in entries), *((2, one) for one in encodings), (3, UTC.encode())]
        )
        stripe_entry = [(1, len(MAGIC)), (2, 0), (3, data_bytes), (4, len(stripe_footer)), (5, rows)]
        content_bytes = len(MAGIC) + data_bytes + len(stripe_footer)
        before_types = encode([(1, len(MAGIC)), (2, content_bytes), (3, encode(stripe_entry))])
        behind_types = encode([(6, rows), (8, 0), (9, self._tail.writer)])
        footer = before_types + self._encoded_types + behind_types
        end = encode(
            [
                (1, len(footer)),
                (2, Codec.NONE),
                (4, _VERSION),
                (5, 0),
                (6, self._tail.postscript.writer_version),
                (8000, MAGIC),
            ]
        )
        return b"".join((stripe_footer, footer, end, bytes((len(end),))))


def _copied(streams: Sequence[Stream], stored: StoredBytes, room: DecoderRoom) -> Iterator[tuple[Stream, int, int]]:
    """Put streams that lie side by side into the room as they are."""
    whole, start = range_of(streams), room.end
    stored.fill(whole, room.extend(whole.length))
    for stream in streams:
        place = start + stream.range.offset - whole.offset
        yield stream, place, place + stream.range.length


def _encoding(one: _Type, footer: StripeFooter) -> bytes:
    if one.encoding is not None:
        return one.encoding
    return _DIRECT_ENCODING if one.type_id is None else footer.encodings[one.type_id]


def _add(types: list[_Type], wanted: Wanted, as_longs: Callable[[OrcType], bool]) -> Node:
    type_id, stored = wanted.column.type_id, wanted.column.type
    number = len(types)
    if stored.kind is Kind.STRUCT:
        return _add_struct(types, type_id, wanted.decoded, as_longs)
    if stored.kind in (Kind.LIST, Kind.MAP):
        types.append(_Type(type_id, Kind.LIST, encode([(1, Kind.LIST), (2, number + 1)])))
        if stored.kind is Kind.MAP:
            return Node(number, Kind.LIST, children=[_add_struct(types, None, wanted.children, as_longs)])
        return Node(number, Kind.LIST, children=[_add(types, wanted.children[0], as_longs)])
    kind = _STORED_ALIKE.get(stored.kind, stored.kind)
    if as_longs(stored):
        kind = Kind.LONG
    digits = [(5, stored.precision), (6, stored.scale)] if kind is Kind.DECIMAL else []
    # Decimals that are stored as integers are so in the second version, and called direct all the same.
    is_decimal64 = kind is Kind.LONG and stored.kind is Kind.DECIMAL
    types.append(_Type(type_id, kind, encode([(1, kind), *digits]), _DIRECT_V2_ENCODING if is_decimal64 else None))
    return Node(number, kind, stored.precision, stored.scale)


def _add_struct(
    types: list[_Type], type_id: int | None, children: Sequence[Wanted], as_longs: Callable[[OrcType], bool]
) -> Node:
    number = len(types)
    types.append(_Type(type_id, Kind.STRUCT, b""))
    inside = [_add(types, child, as_longs) for child in children]
    subtypes = [(2, child.number) for child in inside]
    names = [(3, str(i).encode()) for i in range(len(children))]
    types[number] = _Type(type_id, Kind.STRUCT, encode([(1, Kind.STRUCT), *subtypes, *names]))
    return Node(number, Kind.STRUCT, children=inside)
