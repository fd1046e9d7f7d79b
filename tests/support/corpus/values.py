"""Values that make trouble, by type, and the ways in which a column may hold them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.tck.literals import unscaled

__all__ = [
    "BINARY",
    "BOOLEAN",
    "DATE",
    "DOUBLE",
    "FLOAT",
    "INT",
    "LIST",
    "LISTS",
    "LONG",
    "MAP",
    "NESTED",
    "PATTERNS",
    "STRING",
    "STRUCT",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "TIMESTAMPTZ_NANO",
    "TIMESTAMP_NANO",
    "UUID",
    "Domain",
    "decimals",
    "fixed",
    "integers",
    "lists_of_unions",
    "moments",
    "spread",
    "steps",
    "unions",
]

MINUTE = 60_000_000
DAY = 24 * 60 * MINUTE
YEAR = 31_556_952_000_000
# The first and last days of the years 1 and 9999.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896


@dataclass(frozen=True)
class Domain:
    """The values that a column may hold: edges of its type, and any number of others.

    Attributes:
        type: How formatkit reads the column.
        edges: Values at which readers and writers err.
        draw: Any other value; its second argument is how far from zero it lies, from 0 to 1.
        key: What values are sorted by.
    """

    type: IcebergType
    edges: Sequence[Any]
    draw: Callable[[Random, float], Any]
    key: Callable[[Any], Any] = lambda value: value


def integers(kind: IcebergType, low: int, high: int, *edges: int, step: int = 1) -> Domain:
    """Whole multiples of `step` from `low` to `high`."""
    around = (low, low + step, high - step, high, 0, step, -step, 100 * step, -128 * step, 255 * step, 65_536 * step)
    chosen = sorted({edge for edge in (*around, *edges) if low <= edge <= high})

    def draw(random: Random, reach: float) -> int:
        bits = random.random() * reach * max(high, -low).bit_length()
        number = random.choice((1, -1)) * int(2**bits) // step * step
        return number if low <= number <= high else abs(number) if low <= abs(number) <= high else max(0, low)

    return Domain(kind, chosen, draw)


def decimals(precision: int, scale: int) -> Domain:
    whole = integers(IntegerType(), -(10**precision) + 1, 10**precision - 1)
    return Domain(
        DecimalType(precision, scale),
        [unscaled(edge, scale) for edge in whole.edges],
        lambda random, reach: unscaled(whole.draw(random, reach), scale),
    )


def moments(kind: IcebergType, low: int, high: int, *, step: int = 1, per_micro: int = 1) -> Domain:
    """Points in time as numbers, more of them near 1970 and near the ends of days than elsewhere."""
    seconds = 1_000_000 * per_micro
    edges = [sign * at for at in (0, 1, 999_999, 1_000_000, 1_000_001, DAY - 1, DAY, 40 * YEAR) for sign in (1, -1)]
    edges += [-10 * seconds // 4 // per_micro, 1_435_622_400_000_000, -2_208_988_800_000_000]
    return integers(kind, low, high, *(edge * per_micro // step * step for edge in edges), step=step)


def _floats(kind: IcebergType, code: str, *edges: float) -> Domain:
    def narrow(number: float) -> float:
        return float(struct.unpack(code, struct.pack(code, number))[0])

    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, narrow(0.1), *edges, *(-edge for edge in edges)]
    return Domain(
        kind,
        special,
        lambda random, reach: narrow(random.uniform(-1, 1) * 10 ** (reach * random.uniform(-30, 30))),
        key=lambda number: (math.isnan(number), number),
    )


_ALPHABET = ["a", "b", "A", " ", "'", "%", "\0", "\x7f", "é", "ß", "€", "\uffff", "\U0001f600", "\U0010ffff", "\n"]
_TEXTS = ["", "a", "ab", "abc", "b", "ab\U0001f600", "ab\uffff", "é", "a" * 63, "a" * 64 + "b", "\U0010ffff" * 20]
_TEXTS += ["long " * 400, "\0", " trailing ", "null", "NaN"]
_BYTES = [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff" * 70, b"\xfe\xff" * 40, b"ab", bytes(300)]


def _text(random: Random, reach: float) -> str:
    return "".join(random.choice(_ALPHABET) for _ in range(int(random.random() ** 2 * (4 + 60 * reach))))


BOOLEAN = Domain(BooleanType(), [False, True], lambda random, _: random.random() < 0.5)
INT = integers(IntegerType(), -(2**31), 2**31 - 1)
LONG = integers(LongType(), -(2**63), 2**63 - 1, 2**31, -(2**31) - 1, 2**53 + 1)
FLOAT = _floats(FloatType(), "<f", struct.unpack("<f", b"\xff\xff\x7f\x7f")[0], 2.0**-149)
DOUBLE = _floats(DoubleType(), "<d", 1.7976931348623157e308, 5e-324, 1e-300)
DATE = integers(DateType(), FIRST_DAY, LAST_DAY, -1, 18_262, -141_427, -141_428, -25_567)
TIME = integers(TimeType(), 0, DAY - 1, DAY // 2)
TIMESTAMP = moments(TimestampType(), FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1)
TIMESTAMPTZ = moments(TimestamptzType(), FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1)
TIMESTAMP_NANO = moments(TimestampNanoType(), -(2**63) + 1, 2**63 - 1, per_micro=1000)
TIMESTAMPTZ_NANO = moments(TimestamptzNanoType(), -(2**63) + 1, 2**63 - 1, per_micro=1000)
STRING = Domain(StringType(), _TEXTS, _text, key=str.encode)
BINARY = Domain(BinaryType(), _BYTES, lambda random, reach: random.randbytes(int(random.random() * 40 * reach)))


def fixed(length: int) -> Domain:
    edges = [bytes(length), b"\xff" * length, b"\x7f" + bytes(length - 1), b"\x80" + bytes(length - 1)]
    return Domain(FixedType(length), edges, lambda random, _: random.randbytes(length))


UUID = replace(fixed(16), type=UUIDType())


def steps(domain: Domain, step: int) -> Domain:
    """The values of a domain of numbers that are multiples of `step`, as a coarser unit stores them."""
    low, high = -(-domain.edges[0] // step) * step, domain.edges[-1] // step * step
    return integers(domain.type, low, high, *(edge // step * step for edge in domain.edges), step=step)


def _struct_of(*children: tuple[int, str, Domain]) -> Domain:
    def draw(random: Random, reach: float) -> dict[int, Any]:
        return {child_id: _one_of(child, random, reach) for child_id, _, child in children}

    fields = [NestedField(child_id, name, child.type) for child_id, name, child in children]
    edges = [{child_id: None for child_id, _, _ in children}]
    return Domain(StructType(*fields), edges, draw, key=repr)


def _list_of(element_id: int, element: Domain) -> Domain:
    def draw(random: Random, reach: float) -> list[Any]:
        return [_one_of(element, random, reach) for _ in range(random.choice((0, 1, 2, 5)))]

    kind = ListType(element_id, element.type, element_required=False)
    return Domain(kind, [[], [None], [None, None]], draw, key=repr)


def _map_of(key_id: int, key: Domain, value_id: int, value: Domain) -> Domain:
    def draw(random: Random, reach: float) -> list[Any]:
        keys = {key.draw(random, reach) for _ in range(random.choice((0, 1, 2, 4)))}
        return [(each, _one_of(value, random, reach)) for each in sorted(keys, key=key.key)]

    kind = MapType(key_id, key.type, value_id, value.type, value_required=False)
    return Domain(kind, [[]], draw, key=repr)


def _union_of(first_id: int, *branches: Domain, nulls: bool) -> Domain:
    """A struct of a tag and its branches, all but one of which are null; that one may be null as well if `nulls`."""

    def draw(random: Random, reach: float) -> dict[int, Any]:
        tag = random.randrange(len(branches))
        value = _one_of(branches[tag], random, reach) if nulls else branches[tag].draw(random, reach)
        return one(tag, value)

    def one(tag: int, value: Any) -> dict[int, Any]:
        others = dict.fromkeys(range(first_id + 1, first_id + 1 + len(branches)))
        return {first_id: tag, **others, first_id + 1 + tag: value}

    fields = [
        NestedField(first_id, "tag", IntegerType(), required=True),
        *(NestedField(first_id + 1 + tag, f"field{tag}", branch.type) for tag, branch in enumerate(branches)),
    ]
    edges = [one(tag, edge) for tag, branch in enumerate(branches) for edge in branch.edges]
    return Domain(
        StructType(*fields), edges + [one(tag, None) for tag in range(len(branches)) if nulls], draw, key=repr
    )


def _one_of(domain: Domain, random: Random, reach: float) -> Any:
    """A value of a nested column, null at times."""
    chance = random.random()
    if chance < 0.2:
        return None
    return random.choice(domain.edges) if chance < 0.4 else domain.draw(random, reach)


STRUCT = _struct_of((101, "n", LONG), (102, "s", STRING), (103, "in", _struct_of((104, "d", DOUBLE))))
LIST = _list_of(111, INT)
LISTS = _list_of(112, _list_of(113, STRING))
MAP = _map_of(121, STRING, 122, LONG)
NESTED = _list_of(
    131,
    _struct_of((132, "m", _map_of(133, INT, 134, _list_of(135, _struct_of((136, "x", STRING))))), (137, "y", INT)),
)


def unions(*, nulls: bool) -> Domain:
    """Unions, whose branches may be null if `nulls`."""
    return _union_of(140, LONG, STRING, _struct_of((150, "d", DOUBLE)), _list_of(151, INT), nulls=nulls)


def lists_of_unions(*, nulls: bool) -> Domain:
    """The same in lists, maps and other unions."""
    inner = _map_of(164, STRING, 165, _union_of(166, INT, STRING, nulls=nulls))
    return _list_of(160, _union_of(161, INT, inner, nulls=nulls))


PATTERNS: dict[str, Callable[[Domain, int, Random], list[Any]]] = {}
"""The ways to fill a column of so many rows."""


def _pattern(fill: Callable[[Domain, int, Random], list[Any]]) -> Callable[[Domain, int, Random], list[Any]]:
    PATTERNS[fill.__name__.strip("_")] = fill
    return fill


@_pattern
def _mixed(domain: Domain, rows: int, random: Random) -> list[Any]:
    return [_one_of(domain, random, 1.0) for _ in range(rows)]


@_pattern
def _edges(domain: Domain, rows: int, random: Random) -> list[Any]:
    return [random.choice(domain.edges) for _ in range(rows)]


@_pattern
def _sorted(domain: Domain, rows: int, random: Random) -> list[Any]:
    return sorted((value for value in _edges(domain, rows, random)), key=domain.key)


@_pattern
def _descending(domain: Domain, rows: int, random: Random) -> list[Any]:
    return sorted((domain.draw(random, 0.9) for _ in range(rows)), key=domain.key, reverse=True)


@_pattern
def _distinct(domain: Domain, rows: int, random: Random) -> list[Any]:
    """More values than a dictionary takes, after a few that it would."""
    few = [domain.draw(random, 0.3) for _ in range(3)]
    return [random.choice(few) if row < rows // 3 else domain.draw(random, 1.0) for row in range(rows)]


@_pattern
def _outliers(domain: Domain, rows: int, random: Random) -> list[Any]:
    """Small values and a few huge ones, as PATCHED_BASE is made for."""
    return [domain.draw(random, 1.0 if random.random() < 0.03 else 0.2) for _ in range(rows)]


@_pattern
def _runs(domain: Domain, rows: int, random: Random) -> list[Any]:
    """The same value several times over, nulls among them."""
    values: list[Any] = []
    while len(values) < rows:
        values += [_one_of(domain, random, 0.5)] * random.choice((1, 3, 7, 8, 9, 60))
    return values[:rows]


@_pattern
def _blocks(domain: Domain, rows: int, random: Random) -> list[Any]:
    """Nulls for a third of the rows in one piece, so that pages, row groups and stripes hold nothing else."""
    return [None if rows // 3 <= row < 2 * rows // 3 else domain.draw(random, 0.6) for row in range(rows)]


@_pattern
def _equal(domain: Domain, rows: int, random: Random) -> list[Any]:
    return [random.choice(domain.edges)] * rows


@_pattern
def _nulls(domain: Domain, rows: int, random: Random) -> list[Any]:
    return [None] * rows


def spread(domain: Domain, rows: int, pattern: str, random: Random, *, required: bool = False) -> list[Any]:
    """Values of a column, without nulls if it is required."""
    values = PATTERNS[pattern](domain, rows, random)
    return [random.choice(domain.edges) if value is None else value for value in values] if required else values
