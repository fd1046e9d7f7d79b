"""The tail of an ORC file: postscript, footer and the statistics of its stripes.

From its end backwards a file is: one byte with the length of the postscript, the postscript, the footer, and the
statistics of all stripes, which are read only when they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate, pairwise

from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import CorruptFileError, FormatkitError, UnsupportedError
from formatkit.formats.orc.compression import Codec, decompress
from formatkit.formats.orc.failures import corrupt, reading
from formatkit.formats.orc.protobuf import Message, ProtobufError
from formatkit.formats.orc.remembering import remembered

__all__ = [
    "MAGIC",
    "Kind",
    "OrcType",
    "PostScript",
    "Stripe",
    "Tail",
    "end_range",
    "parse_stripes",
    "parse_types",
    "read_postscript",
    "read_tail",
]

MAGIC = b"ORC"
_FIRST_READ_BYTES = 16 * 1024
_MAX_BLOCK = 1 << 23
_VERSIONS_WITHOUT_MAGIC = ((), (0, 11), (0, 12))
_UNSTABLE_PRE_2_0 = (1, 9999)
_DIGITS_OF_64_BITS = 18


_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
"""How the edges of geographies are interpolated, by the numbers in the footer."""


class Kind(IntEnum):
    """The types of ORC, by the numbers in the footer."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18
    GEOMETRY = 19
    GEOGRAPHY = 20


@dataclass(frozen=True, kw_only=True)
class OrcType:
    """One node of the tree of types, which the footer lists in depth-first order."""

    kind: Kind
    subtypes: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    precision: int = 0
    scale: int = 0
    crs: str | None = None
    algorithm: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Stripe:
    """Where a stripe lies: index, data and its own footer one after the other, and which rows it holds."""

    index: int
    offset: int
    index_bytes: int
    data_bytes: int
    footer_bytes: int
    first_row: int
    rows: int

    @property
    def end(self) -> int:
        return self.offset + self.index_bytes + self.data_bytes + self.footer_bytes

    @property
    def data(self) -> ByteRange:
        return ByteRange(self.offset + self.index_bytes, self.data_bytes)

    @property
    def footer(self) -> ByteRange:
        return ByteRange(self.offset + self.index_bytes + self.data_bytes, self.footer_bytes)


@dataclass(frozen=True, kw_only=True)
class PostScript:
    """What the last bytes say about the rest of the tail."""

    footer_bytes: int
    codec: Codec
    block_bytes: int
    statistics_bytes: int
    version: tuple[int, ...]
    writer_version: int
    bytes: int

    def is_decimal64(self, kind: OrcType) -> bool:
        """Whether values are stored as integers, in runs, and without a scale of each."""
        return kind.kind is Kind.DECIMAL and kind.precision <= _DIGITS_OF_64_BITS and self.version == _UNSTABLE_PRE_2_0


@dataclass(frozen=True, kw_only=True)
class Tail:
    """What a file says about itself.

    Attributes:
        location: The file.
        postscript: How the tail and everything else is compressed.
        types: The tree of types; the first is the root.
        stored_types: The same as the file stores them.
        stripes: In file order.
        rows: How many there are in the file.
        metadata: Key-value pairs that the writer's user stored.
        writer: Which implementation wrote the file, by its number.
        software: What it calls itself.
        row_index_stride: How many rows an entry of the row indexes covers.
        statistics: Where the statistics of the stripes are.
    """

    location: str
    postscript: PostScript
    types: Sequence[OrcType]
    stored_types: tuple[bytes, ...]
    stripes: Sequence[Stripe]
    rows: int
    metadata: Mapping[str, str]
    writer: int
    software: str
    row_index_stride: int
    statistics: ByteRange


def end_range(size: int) -> ByteRange:
    """What is read first of a file of this length."""
    length = min(size, _FIRST_READ_BYTES)
    return ByteRange(size - length, length)


def read_tail(source: ByteSource) -> Tail:
    """Read and check the tail; raises `CorruptFileError` for what is no ORC file."""
    location, size = source.location, source.size()
    length = end_range(size).length
    end = source.read(*end_range(size))
    with reading(location):
        _check_magic(source, end)
        postscript = read_postscript(end, size, location)
        footer_end = size - postscript.bytes
        start = footer_end - postscript.footer_bytes
        if start >= size - length:
            stored = end[start - (size - length) : footer_end - (size - length)]
        else:
            stored = source.read(start, postscript.footer_bytes)
        footer = Message(decompress(stored, postscript.codec, postscript.block_bytes))
        return _tail(footer, postscript, start, location)


def _check_magic(source: ByteSource, end: memoryview) -> None:
    """Raise `CorruptFileError` for what is no ORC file. Old ones have their magic at the beginning only."""
    found = bytes(end[-1 - len(MAGIC) : -1])
    if found == MAGIC or not end:
        return
    with suppress(FormatkitError, ProtobufError):
        postscript = read_postscript(end, source.size(), source.location)
        if postscript.version in _VERSIONS_WITHOUT_MAGIC and bytes(source.read(0, len(MAGIC))) == MAGIC:
            return
    location = source.location
    message = f"{location}: is not an ORC file, or a truncated one: its postscript ends with {found!r}"
    raise CorruptFileError(message, location=location)


def read_postscript(end: memoryview, size: int, location: str) -> PostScript:
    """The postscript at the end of `end`, which are the last bytes of a file of `size` bytes."""
    length = end[-1] + 1 if end else 0
    if not end or length > len(end):
        raise CorruptFileError(f"{location}: is not an ORC file: it has {size} bytes", location=location)
    parsed = Message(end[-length:-1])
    try:
        codec = Codec(parsed.integer(2))
    except ValueError:
        message = f"{location}: is compressed with the unknown codec {parsed.integer(2)}"
        raise UnsupportedError(message, location=location) from None
    postscript = PostScript(
        footer_bytes=parsed.integer(1),
        codec=codec,
        block_bytes=parsed.integer(3, 256 * 1024),
        statistics_bytes=parsed.integer(5),
        version=tuple(parsed.integers(4)),
        writer_version=parsed.integer(6),
        bytes=length,
    )
    if postscript.footer_bytes + postscript.statistics_bytes + length + len(MAGIC) > size:
        raise corrupt(location, f"its footer claims {postscript.footer_bytes} bytes, the file has {size}")
    if codec is not Codec.NONE and not 0 < postscript.block_bytes <= _MAX_BLOCK:
        raise corrupt(location, f"its compression blocks claim {postscript.block_bytes} bytes")
    return postscript


def _tail(footer: Message, postscript: PostScript, footer_start: int, location: str) -> Tail:
    if 10 in footer:
        raise UnsupportedError(f"{location}: has encrypted columns, which cannot be read", location=location)
    statistics = ByteRange(footer_start - postscript.statistics_bytes, postscript.statistics_bytes)
    stripes = parse_stripes(footer)
    _check_stripes(stripes, statistics.offset, location)
    _check_rows(footer, sum(stripe.rows for stripe in stripes), location)
    stored_types = tuple(footer.contents(4))
    return Tail(
        location=location,
        postscript=postscript,
        types=parse_types(stored_types, location),
        stored_types=stored_types,
        stripes=stripes,
        rows=sum(stripe.rows for stripe in stripes),
        metadata=_metadata(footer),
        writer=footer.integer(9),
        software=footer.text(12) or "",
        row_index_stride=footer.integer(8),
        statistics=statistics,
    )


def _check_rows(footer: Message, rows: int, location: str) -> None:
    """Raise `CorruptFileError` if the stripes have other rows than the footer, and statistics do not side with them.

    Some writers get the number of rows in the footer wrong, and some store none.
    """
    claimed = footer.integer(6)
    if claimed in (0, rows):
        return
    counted = [statistics.integer(1) for statistics in footer.messages(7)[:1]]
    if counted != [rows]:
        raise corrupt(location, f"its footer claims {claimed} rows, its stripes claim {rows}")


def parse_stripes(footer: Message) -> tuple[Stripe, ...]:
    """The stripes that a footer lists, unchecked."""
    stored = footer.messages(3)
    first_rows = accumulate((stripe.integer(5) for stripe in stored), initial=0)
    return tuple(
        Stripe(
            index=index,
            offset=stripe.integer(1),
            index_bytes=stripe.integer(2),
            data_bytes=stripe.integer(3),
            footer_bytes=stripe.integer(4),
            first_row=first_row,
            rows=stripe.integer(5),
        )
        for index, (stripe, first_row) in enumerate(zip(stored, first_rows, strict=False))
    )


def _check_stripes(stripes: Sequence[Stripe], limit: int, location: str) -> None:
    for before, stripe in pairwise(stripes):
        if stripe.offset < before.end:
            raise corrupt(location, f"stripe {stripe.index} begins before the end of the one before it")
    for stripe in stripes:
        if stripe.offset < len(MAGIC) or stripe.end > limit:
            raise corrupt(location, f"stripe {stripe.index} claims bytes outside the file's data")


@remembered
def parse_types(stored_types: tuple[bytes, ...], location: str) -> Sequence[OrcType]:
    """The tree of types; raises `CorruptFileError` if it is none."""
    types = [_type(Message(stored), location) for stored in stored_types]
    if not types:
        raise corrupt(location, "it has no types")
    parents = 0
    for number, node in enumerate(types):
        if node.kind is Kind.STRUCT and len(node.names) != len(node.subtypes):
            raise corrupt(location, f"type {number} has {len(node.subtypes)} fields and {len(node.names)} names")
        wanted = {Kind.LIST: 1, Kind.MAP: 2}.get(node.kind)
        if wanted is not None and len(node.subtypes) != wanted:
            raise corrupt(location, f"type {number} is a {node.kind.name} of {len(node.subtypes)} types")
        if any(not number < subtype < len(types) for subtype in node.subtypes):
            raise corrupt(location, f"type {number} contains a type that does not come after it")
        parents += len(node.subtypes)
    children = {subtype for node in types for subtype in node.subtypes}
    if parents != len(children) or len(children) != len(types) - 1:
        raise corrupt(location, "its types are no tree")
    return types


def _type(stored: Message, location: str) -> OrcType:
    number = stored.integer(1)
    try:
        kind = Kind(number)
    except ValueError:
        raise UnsupportedError(f"{location}: the ORC type {number} is unknown", location=location) from None
    return OrcType(
        kind=kind,
        subtypes=tuple(stored.integers(2)),
        names=tuple(stored.texts(3)),
        precision=stored.integer(5),
        scale=stored.integer(6),
        crs=stored.text(8),
        algorithm=dict(enumerate(_ALGORITHMS)).get(stored.integer(9)) if 9 in stored else None,
        attributes={pair.text(1) or "": pair.text(2) or "" for pair in stored.messages(7)},
    )


def _metadata(footer: Message) -> dict[str, str]:
    pairs = footer.messages(5)
    return {pair.text(1) or "": pair.content(2).decode(errors="replace") for pair in pairs}
