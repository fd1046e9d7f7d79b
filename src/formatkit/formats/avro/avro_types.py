"""The schema that an Avro file stores, as a graph of types in which names are resolved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from formatkit.errors import CorruptFileError
from formatkit.formats.avro.failures import corrupt

__all__ = ["AvroField", "AvroType", "Widths", "parse_schema"]

_PRIMITIVES = {
    "null": 0,
    "boolean": 1,
    "int": None,
    "long": None,
    "float": 4,
    "double": 8,
    "bytes": None,
    "string": None,
}
_MAX_FIXED = 2**31 - 1


@dataclass(eq=False, repr=False, kw_only=True)
class AvroType:
    """One type. Records that refer to themselves are cycles.

    Attributes:
        kind: Avro's word for it: a primitive's name, fixed, enum, array, map, record or union.
        properties: The JSON object that it is declared by, for logical types and ids.
        size: The width of a fixed.
        symbols: Those of an enum.
        inner: The items of an array, the values of a map, the branches of a union.
        fields: Those of a record.
    """

    kind: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    size: int = 0
    symbols: tuple[str, ...] = ()
    inner: tuple[AvroType, ...] = ()
    fields: tuple[AvroField, ...] = ()

    @property
    def logical(self) -> str | None:
        found = self.properties.get("logicalType")
        return found if isinstance(found, str) else None


@dataclass(eq=False, repr=False, kw_only=True)
class AvroField:
    """One field of a record."""

    name: str
    type: AvroType
    properties: Mapping[str, Any]


def parse_schema(text: str | bytes, location: str) -> AvroType:
    """The type of the rows.

    Raises:
        CorruptFileError: The text is no Avro schema.
    """
    try:
        return _Parser(location).parse(json.loads(text), "")
    except (ValueError, RecursionError) as error:
        if isinstance(error, CorruptFileError):
            raise
        raise corrupt(location, f"its schema is not readable JSON: {error}") from error


class _Parser:
    def __init__(self, location: str) -> None:
        self._location = location
        self._named: dict[str, AvroType] = {}

    def parse(self, declared: Any, namespace: str) -> AvroType:
        match declared:
            case str():
                return self._by_name(declared, {}, namespace)
            case list():
                return AvroType(kind="union", inner=tuple(self.parse(branch, namespace) for branch in declared))
            case {"type": "record" | "error"}:
                return self._record(declared, namespace)
            case {"type": "enum", "symbols": [*symbols]} if all(isinstance(symbol, str) for symbol in symbols):
                return self._define(
                    declared, AvroType(kind="enum", properties=declared, symbols=tuple(symbols)), namespace
                )
            case {"type": "fixed", "size": int(size)} if 0 <= size <= _MAX_FIXED:
                return self._define(declared, AvroType(kind="fixed", properties=declared, size=size), namespace)
            case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
                items = self.parse(inner, namespace)
                return AvroType(kind=declared["type"], properties=declared, inner=(items,))
            case {"type": str(name)}:
                return self._by_name(name, declared, namespace)
            case {"type": dict() | list() as wrapped}:
                return self.parse(wrapped, namespace)
        raise corrupt(self._location, f"its schema has a type that Avro does not know: {json.dumps(declared)[:200]}")

    def _by_name(self, name: str, properties: Mapping[str, Any], namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroType(kind=name, properties=properties)
        for full_name in (f"{namespace}.{name}", name):
            if full_name in self._named:
                return self._named[full_name]
        raise corrupt(self._location, f"its schema uses the type {name!r}, which it does not declare")

    def _define(self, declared: Mapping[str, Any], made: AvroType, namespace: str) -> AvroType:
        self._named[self._full_name(declared, namespace)] = made
        return made

    def _full_name(self, declared: Mapping[str, Any], namespace: str) -> str:
        name = declared.get("name")
        if not isinstance(name, str):
            raise corrupt(self._location, f"its schema has a {declared['type']} without a name")
        if "." in name:
            return name
        own = declared.get("namespace", namespace)
        return f"{own}.{name}" if own else name

    def _record(self, declared: Mapping[str, Any], namespace: str) -> AvroType:
        made = self._define(declared, AvroType(kind="record", properties=declared), namespace)
        inside = self._full_name(declared, namespace).rpartition(".")[0]
        fields = declared.get("fields")
        if not isinstance(fields, list):
            raise corrupt(self._location, f"its schema has a record without fields: {declared['name']!r}")
        made.fields = tuple(self._field(each, inside) for each in fields)
        return made

    def _field(self, declared: Any, namespace: str) -> AvroField:
        match declared:
            case {"name": str(name), "type": kind}:
                return AvroField(name=name, type=self.parse(kind, namespace), properties=declared)
        raise corrupt(self._location, f"its schema has a field without name or type: {json.dumps(declared)[:200]}")


class Widths:
    """How many bytes values take. Each record is looked into once, however often the schema names it."""

    def __init__(self) -> None:
        self._constant: dict[AvroType, int | None] = {}
        self._least: dict[AvroType, int] = {}

    def constant(self, kind: AvroType) -> int | None:
        """The bytes that each value takes, if all take the same."""
        if kind.kind != "record":
            return _flat_width(kind)
        if kind not in self._constant:
            self._constant[kind] = None  # what a record that holds itself finds
            widths = [self.constant(each.type) for each in kind.fields]
            self._constant[kind] = None if None in widths else sum(width or 0 for width in widths)
        return self._constant[kind]

    def least(self, kind: AvroType) -> int:
        """The fewest bytes that a value can take. Zero only where every value takes none."""
        if kind.kind != "record":
            width = _flat_width(kind)
            return 1 if width is None else width
        if kind not in self._least:
            self._least[kind] = 1  # a record that holds itself outright has no values
            self._least[kind] = sum(self.least(each.type) for each in kind.fields)
        return self._least[kind]


def _flat_width(kind: AvroType) -> int | None:
    return kind.size if kind.kind == "fixed" else _PRIMITIVES.get(kind.kind)
