"""Random Avro schemas with rows of them, and what reading those rows must give."""

from __future__ import annotations

from decimal import Decimal
from itertools import count
from typing import Any

from hypothesis import strategies as st

from support.avro_reading import field, record

_INT, _LONG = 2**31, 2**63


@st.composite
def files(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    """A schema and rows of it."""
    schema = draw(_records(st.deferred(lambda: _types), count()))
    return schema, draw(st.lists(values(schema), max_size=12))


def _names(prefix: str, numbers: count[int]) -> st.SearchStrategy[str]:
    return st.builds(lambda: f"{prefix}{next(numbers)}")


@st.composite
def _records(draw: st.DrawFn, inner: st.SearchStrategy[Any], numbers: count[int]) -> Any:
    kinds = [draw(_flat), *draw(st.lists(inner | _unions(inner), max_size=4))]
    order = draw(st.permutations(range(len(kinds))))
    fields = [field(f"f{place}", kinds[place]) for place in order]
    return record(*fields, name=f"r{next(numbers)}_{draw(st.uuids()).hex}")


_flat: st.SearchStrategy[Any] = st.sampled_from(["boolean", "int", "long", "float", "double", "bytes", "string"])
_fixed = st.builds(
    lambda size, name: {"type": "fixed", "name": f"x{name.hex}", "size": size}, st.integers(1, 20), st.uuids()
)
_enum = st.builds(lambda name: {"type": "enum", "name": f"e{name.hex}", "symbols": ["A", "B", "Ce"]}, st.uuids())
_logical = st.sampled_from(
    [
        {"type": "int", "logicalType": "date"},
        {"type": "int", "logicalType": "time-millis"},
        {"type": "long", "logicalType": "time-micros"},
        {"type": "long", "logicalType": "local-timestamp-millis"},
        {"type": "long", "logicalType": "local-timestamp-micros"},
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
        {"type": "string", "logicalType": "uuid"},
        # What follows is unknown, or does not fit its base.
        {"type": "long", "logicalType": "time-millis"},
        {"type": "int", "logicalType": "timestamp-millis"},
        {"type": "long", "logicalType": "somebody.duration-millis"},
        {"type": "double", "logicalType": "timestamp-millis"},
        {"type": "string", "logicalType": "decimal", "precision": 3},
    ]
)


def _unions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Unions of several types, which differ by their names in Avro."""
    branches = st.lists(inner.filter(lambda kind: not isinstance(kind, list)), min_size=2, max_size=5, unique_by=_name)
    return branches.filter(lambda kinds: len(_values_of(kinds)) > 1)


def _name(kind: Any) -> str:
    """What tells a branch from the others of a union."""
    if isinstance(kind, str):
        return kind
    return str(kind.get("name", kind["type"]))


def _values_of(branches: list[Any]) -> list[Any]:
    return [branch for branch in branches if branch != "null"]


def _optional(kind: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([["null", kind], [kind, "null"], [kind]])


_types: st.SearchStrategy[Any] = st.recursive(
    _flat | _fixed | _enum | _logical | st.just("null"),
    lambda inner: st.one_of(
        _unions(inner),
        inner.filter(lambda kind: kind != "null" and not isinstance(kind, list)).flatmap(_optional),
        inner.map(lambda kind: {"type": "array", "items": kind}),
        inner.map(lambda kind: {"type": "map", "values": kind}),
        _records(inner, count()),
    ),
    max_leaves=6,
)

_FLAT_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-_INT, _INT - 1) | st.integers(-70, 70),
    "long": st.integers(-_LONG, _LONG - 1) | st.integers(-70, 70),
    "float": st.floats(width=32),
    "double": st.floats(),
    "bytes": st.binary(max_size=90),
    "string": st.text(max_size=30) | st.sampled_from(["x" * 15, "x" * 16, "x" * 17, "ä" * 40]),
}


def _in_millis(value: Any) -> Any:
    return value.replace(microsecond=value.microsecond // 1000 * 1000, fold=0)


_LOGICAL_VALUES: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("int", "date"): st.dates(),
    ("int", "time-millis"): st.times().map(_in_millis),
    ("long", "time-micros"): st.times().map(lambda time: time.replace(fold=0)),
    ("long", "local-timestamp-millis"): st.datetimes().map(_in_millis),
    ("long", "local-timestamp-micros"): st.datetimes().map(lambda moment: moment.replace(fold=0)),
    ("string", "uuid"): st.uuids(),
}
_DECIMALS = st.integers(-(10**20) + 1, 10**20 - 1).map(lambda number: Decimal(number).scaleb(-3))


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values as fastavro takes them."""
    match kind:
        case str():
            return _FLAT_VALUES[kind]
        case [*branches]:
            return st.one_of([_tagged(branch) for branch in branches])
        case {"type": "bytes", "logicalType": "decimal", "precision": 20}:
            return _DECIMALS
        case {"type": str(base), "logicalType": str(logical)}:
            return _LOGICAL_VALUES.get((base, logical), _FLAT_VALUES.get(base, st.nothing()))
        case {"type": "fixed", "size": size}:
            return st.binary(min_size=size, max_size=size)
        case {"type": "enum", "symbols": symbols}:
            return st.sampled_from(symbols)
        case {"type": "array", "items": items}:
            return st.lists(values(items), max_size=4)
        case {"type": "map", "values": inner}:
            return st.dictionaries(st.text(max_size=3), values(inner), max_size=3)
    return st.fixed_dictionaries({each["name"]: values(each["type"]) for each in kind["fields"]})


def _tagged(branch: Any) -> st.SearchStrategy[Any]:
    """The values of a branch with its name, so that fastavro need not guess the branch."""
    return st.none() if branch == "null" else st.tuples(st.just(_name(branch)), values(branch))


def expected(kind: Any, value: Any) -> Any:
    """The value as Arrow shows it: maps are pairs, and unions of several types are structs of their branches."""
    match kind:
        case [*branches] if len(_values_of(branches)) > 1:
            if value is None:
                return None
            kinds = _values_of(branches)
            tag = [_name(each) for each in kinds].index(value[0])
            fields = {f"field{place}": None for place in range(len(kinds))}
            return {"tag": tag, **fields, f"field{tag}": expected(kinds[tag], value[1])}
        case [*branches]:
            inner = next((branch for branch in branches if branch != "null"), "null")
            return None if value is None else expected(inner, value[1])
        case {"type": "array", "items": items}:
            return [expected(items, each) for each in value]
        case {"type": "map", "values": inner}:
            return [(key, expected(inner, each)) for key, each in value.items()]
        case {"type": "record", "fields": fields}:
            return {each["name"]: expected(each["type"], value[each["name"]]) for each in fields}
    return value
