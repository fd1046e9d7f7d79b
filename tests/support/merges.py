"""Merges at random: a table, a source, and clauses, each once as callers write it and once for the naive model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DecimalType, DoubleType, IntegerType, LongType, NestedField, StringType

from formatkit import Delete, Insert, Update
from support.naive_merge import NaiveClause, NaiveMerge, compare
from support.written_tables import spec

__all__ = ["SCHEMA", "SOURCE", "SPECS", "K", "RandomMerge", "merges", "source_table", "table_rows"]

K, P, V, N, D = 1, 2, 3, 4, 5
NAMES = {"k": K, "p": P, "v": V, "n": N, "d": D}
SCHEMA = Schema(
    NestedField(K, "k", LongType()),
    NestedField(P, "p", StringType()),
    NestedField(V, "v", DoubleType()),
    NestedField(N, "n", IntegerType()),
    NestedField(D, "d", DecimalType(9, 2)),
)
SPECS: list[PartitionSpec] = [
    UNPARTITIONED_PARTITION_SPEC,
    spec((P, IdentityTransform())),
    spec((K, BucketTransform(2))),
]
SOURCE = pa.schema(
    [  # type: ignore[arg-type]  # the stubs take types of one kind only
        ("k", pa.int64()),
        ("key", pa.int32()),
        ("p", pa.string()),
        ("v", pa.float64()),
        ("f", pa.float32()),
        ("n", pa.int32()),
        ("op", pa.string()),
    ]
)
NAN = float("nan")
_KEYS = st.sampled_from([None, 0, 1, 2, 3, 4, 5, 6])
_TEXTS = st.sampled_from([None, "a", "b", "ä"])
_DOUBLES = st.sampled_from([None, NAN, 0.0, -0.0, 1.5, -2.0])
_INTS = st.sampled_from([None, -1, 0, 1, 2])
_DECIMALS = st.sampled_from([None, Decimal("0.50"), Decimal("1.00"), Decimal("-1.00")])
# By column, so that what is compared has something in common.
_TARGET_NUMBERS = ["target.k", "target.n", "target.d"]
_SOURCE_NUMBERS = ["source.k", "source.key", "source.n"]
_LITERALS: dict[str, list[Any]] = {
    "k": [0, 3, 10],
    "key": [1, 4],
    "n": [0, 1],
    "d": [Decimal("0.5"), 1],
    "v": [0, 1.5],
    "f": [0, 1.5],
    "p": ["a", "b"],
    "op": ["x", "y"],
}
_SIGNS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])

Test = Callable[[Any, Any], bool]


def table_rows(max_size: int = 8) -> st.SearchStrategy[list[dict[int, Any]]]:
    """Rows of the table."""
    return st.lists(
        st.fixed_dictionaries({K: _KEYS, P: _TEXTS, V: _DOUBLES, N: _INTS, D: _DECIMALS}), max_size=max_size
    )


def source_rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Rows of a source."""
    columns = {
        "k": _KEYS,
        "key": _KEYS,
        "p": _TEXTS,
        "v": _DOUBLES,
        "f": _DOUBLES,
        "n": _INTS,
        "op": st.sampled_from([None, "x", "y"]),
    }
    return st.lists(st.fixed_dictionaries(columns), max_size=8)


def source_table(rows: list[dict[str, Any]]) -> pa.Table:
    """The rows as Arrow data."""
    return pa.Table.from_pylist(rows, schema=SOURCE)


@dataclass(frozen=True)
class RandomMerge:
    """The arguments of a merge, and what they mean."""

    arguments: dict[str, Any]
    model: NaiveMerge
    source: pa.Table


def _value(name: str) -> Callable[[Any, Any], Any]:
    side, column = name.split(".")
    return lambda source, target: source[column] if side == "source" else target[NAMES[column]]


def _text(literal: Any) -> str:
    return f"'{literal}'" if isinstance(literal, str) else str(literal)


@st.composite
def _leaves(draw: st.DrawFn, sides: tuple[str, ...]) -> tuple[str, Test]:
    own = [f"target.{name}" for name in NAMES] if "target" in sides else []
    names = [*own, *([f"source.{name}" for name in SOURCE.names] if "source" in sides else [])]
    kind = draw(st.sampled_from(["literal", "column", "null", "nan", "in"]))
    if kind == "column":
        numbers = [name for name in (*_TARGET_NUMBERS, *_SOURCE_NUMBERS) if name in names]
        floats = [name for name in ("target.v", "source.v", "source.f") if name in names]
        texts = [name for name in ("target.p", "source.p", "source.op") if name in names]
        family: list[str] = draw(st.sampled_from([numbers, floats, texts]))
        left, right, sign = draw(st.sampled_from(family)), draw(st.sampled_from(family)), draw(_SIGNS)
        mine, other = _value(left), _value(right)
        return f"{left} {sign} {right}", lambda s, t: compare(sign, mine(s, t), other(s, t))
    name = draw(st.sampled_from(names))
    value, literals = _value(name), _LITERALS[name.split(".")[1]]
    if kind == "null":
        return f"{name} is null", lambda s, t: value(s, t) is None
    if kind == "nan" and name.split(".")[1] in "vf":
        return f"{name} is not nan", lambda s, t: not (value(s, t) is not None and value(s, t) != value(s, t))
    if kind == "in":
        text = f"{name} not in ({', '.join(map(_text, literals))})"
        if len({type(each) for each in literals}) == 1:
            return text, lambda s, t: not any(compare("=", value(s, t), each) for each in literals)
    literal, sign = draw(st.sampled_from(literals)), draw(_SIGNS)
    return f"{name} {sign} {_text(literal)}", lambda s, t: compare(sign, value(s, t), literal)


def _conditions(*sides: str) -> st.SearchStrategy[tuple[str, Test]]:
    def combined(children: st.SearchStrategy[tuple[str, Test]]) -> st.SearchStrategy[tuple[str, Test]]:
        def both(pair: tuple[tuple[str, Test], tuple[str, Test]]) -> tuple[str, Test]:
            (text, test), (other_text, other) = pair
            return f"({text} and {other_text})", lambda s, t: test(s, t) and other(s, t)

        def either(pair: tuple[tuple[str, Test], tuple[str, Test]]) -> tuple[str, Test]:
            (text, test), (other_text, other) = pair
            return f"({text} or {other_text})", lambda s, t: test(s, t) or other(s, t)

        def negated(child: tuple[str, Test]) -> tuple[str, Test]:
            text, test = child
            return f"not ({text})", lambda s, t: not test(s, t)

        pairs = st.tuples(children, children)
        return st.one_of(pairs.map(both), pairs.map(either), children.map(negated))

    return st.recursive(_leaves(sides), combined, max_leaves=4)


_ASSIGNED: dict[str, list[tuple[Any, Callable[[Any, Any], Any]]]] = {
    "p": [
        ("source.op", lambda s, t: s["op"]),
        ("'it''s'", lambda s, t: "it's"),
        (None, lambda s, t: None),
        ("target.p", lambda s, t: t[P]),
    ],
    "v": [
        ("source.f", lambda s, t: s["f"]),
        ("1.5", lambda s, t: 1.5),
        (NAN, lambda s, t: NAN),
        ("target.v", lambda s, t: t[V]),
    ],
    "k": [("source.key", lambda s, t: s["key"]), (7, lambda s, t: 7), ("target.k", lambda s, t: t[K])],
    "n": [("source.n", lambda s, t: s["n"]), ("2", lambda s, t: 2), ("target.n", lambda s, t: t[N])],
    "d": [(Decimal("0.25"), lambda s, t: Decimal("0.25")), ("0.75", lambda s, t: Decimal("0.75"))],
}


@st.composite
def _assignments(draw: st.DrawFn, *sides: str) -> tuple[dict[str, Any], dict[int, Callable[[Any, Any], Any]]]:
    given: dict[str, Any] = {}
    meant: dict[int, Callable[[Any, Any], Any]] = {}
    for name in draw(st.lists(st.sampled_from(sorted(_ASSIGNED)), min_size=1, max_size=4, unique=True)):
        fitting = [
            each
            for each in _ASSIGNED[name]
            if not isinstance(each[0], str) or each[0][0] not in "st" or each[0].split(".")[0] in sides
        ]
        given[name], meant[NAMES[name]] = draw(st.sampled_from(fitting))
    return given, meant


def _with(meant: dict[int, Callable[[Any, Any], Any]]) -> Callable[[Any, Any], dict[int, Any]]:
    def row(source: Any, target: Any) -> dict[int, Any]:
        old = target or dict.fromkeys(NAMES.values())
        return {**old, **{id_: value(source, target) for id_, value in meant.items()}}

    return row


@st.composite
def _clauses(
    draw: st.DrawFn, kinds: list[str], *sides: str, by_name: dict[int, Callable[[Any, Any], Any]] | None
) -> tuple[list[Any], list[NaiveClause]]:
    given, meant = list[Any](), list[NaiveClause]()
    for last in [False] * draw(st.integers(0, 2)) + [True] * draw(st.booleans()):
        where, test = (None, lambda s, t: True) if last and draw(st.booleans()) else draw(_conditions(*sides))
        kind = draw(st.sampled_from(kinds))
        if kind == "delete":
            given.append(Delete(where))
            meant.append(NaiveClause(None, test))
            continue
        make = Update if kind == "update" else Insert
        if by_name is not None and draw(st.booleans()):
            given.append(make(where=where))
            meant.append(NaiveClause(_with(by_name), test))
        else:
            assigned, values = draw(_assignments(*sides))
            given.append(make(assigned, where))
            meant.append(NaiveClause(_with(values), test))
    return given, meant


@st.composite
def merges(draw: st.DrawFn) -> RandomMerge:
    """A source and clauses at random."""
    source = draw(source_rows())
    # Two rows with one key would be rare otherwise, and nothing is as easily done wrong.
    source += [{**draw(st.sampled_from(source)), "op": "y"} for _ in range(draw(st.integers(0, 1))) if source]
    keys = draw(st.sampled_from([{"k": "k"}, {"k": "key"}, {"k": "k", "p": "p"}, {"n": "n", "k": "key"}]))
    by_name = {NAMES[name]: _value(f"source.{name}") for name in ("k", "p", "v", "n")}
    by_name |= {NAMES[own]: _value(f"source.{other}") for own, other in keys.items()}
    matched, naive_matched = draw(_clauses(["update", "delete"], "source", "target", by_name=by_name))
    not_matched, naive_not_matched = draw(_clauses(["insert"], "source", by_name=by_name))
    lone, naive_lone = draw(_clauses(["update", "delete"], "target", by_name=None))
    if not (matched or not_matched or lone):
        matched, naive_matched = [Delete()], [NaiveClause()]
    return RandomMerge(
        arguments={
            "on": keys,
            "matched": matched,
            "not_matched": not_matched,
            "not_matched_by_source": lone,
        },
        model=NaiveMerge(
            source=source,
            key=lambda row: [row[NAMES[own]] for own in keys],
            source_key=lambda row: [row[other] for other in keys.values()],
            matched=naive_matched,
            not_matched=naive_not_matched,
            not_matched_by_source=naive_lone,
            lone_delete=matched == [Delete()],
        ),
        source=source_table(source),
    )
