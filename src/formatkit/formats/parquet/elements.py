"""The elements of a Parquet schema: what is stored about one node, with old and new annotations told in one way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from operator import index
from typing import Any

__all__ = ["Annotation", "Element", "Kind", "Physical", "Repetition", "Unit"]

_MAX_TYPE_LENGTH = 2**31 - 1


class Physical(IntEnum):
    """Physical types, by their number in the footer."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED = 7


class Repetition(IntEnum):
    """How often a node occurs in its parent."""

    REQUIRED = 0
    OPTIONAL = 1
    REPEATED = 2


class Kind(Enum):
    """What an annotation says the values are. The value is the field of the union `LogicalType`."""

    STRING = 1
    MAP = 2
    LIST = 3
    ENUM = 4
    DECIMAL = 5
    DATE = 6
    TIME = 7
    TIMESTAMP = 8
    INTEGER = 10
    NULL = 11
    JSON = 12
    BSON = 13
    UUID = 14
    FLOAT16 = 15
    VARIANT = 16
    GEOMETRY = 17
    GEOGRAPHY = 18
    INTERVAL = -1
    FOREIGN = -2


class Unit(IntEnum):
    """Units of times and timestamps, by their field in the union `TimeUnit`."""

    MILLIS = 1
    MICROS = 2
    NANOS = 3


@dataclass(frozen=True)
class Annotation:
    """A logical type, or the converted type that means the same."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    unit: Unit = Unit.MICROS
    utc: bool = False
    bits: int = 0
    signed: bool = True
    crs: str | None = None
    algorithm: int | None = None

    @classmethod
    def from_logical(cls, logical: Mapping[int, Any]) -> Annotation:
        """Read the union `LogicalType`; what is not known here, or lacks a part, becomes `Kind.FOREIGN`."""
        number, body = next(iter(logical.items()))
        try:
            return cls._known(Kind(number), body)
        except (AttributeError, KeyError, StopIteration, TypeError, ValueError):
            return cls(Kind.FOREIGN)

    @classmethod
    def _known(cls, kind: Kind, body: Mapping[int, Any]) -> Annotation:
        match kind:
            case Kind.DECIMAL:
                return cls(kind, scale=body[1], precision=body[2])
            case Kind.TIME | Kind.TIMESTAMP:
                return cls(kind, utc=body[1], unit=Unit(next(iter(body[2]))))
            case Kind.INTEGER:
                return cls(kind, bits=body[1], signed=body[2])
            case Kind.GEOMETRY | Kind.GEOGRAPHY:
                crs = body.get(1)
                return cls(kind, crs=None if crs is None else bytes(crs).decode(), algorithm=body.get(2))
            case _:
                return cls(kind)


# In the order of the enum `ConvertedType`; decimals get their numbers from the element.
_CONVERTED = (
    Annotation(Kind.STRING),
    Annotation(Kind.MAP),
    Annotation(Kind.MAP),
    Annotation(Kind.LIST),
    Annotation(Kind.ENUM),
    Annotation(Kind.DECIMAL),
    Annotation(Kind.DATE),
    Annotation(Kind.TIME, unit=Unit.MILLIS, utc=True),
    Annotation(Kind.TIME, unit=Unit.MICROS, utc=True),
    Annotation(Kind.TIMESTAMP, unit=Unit.MILLIS, utc=True),
    Annotation(Kind.TIMESTAMP, unit=Unit.MICROS, utc=True),
    Annotation(Kind.INTEGER, bits=8, signed=False),
    Annotation(Kind.INTEGER, bits=16, signed=False),
    Annotation(Kind.INTEGER, bits=32, signed=False),
    Annotation(Kind.INTEGER, bits=64, signed=False),
    Annotation(Kind.INTEGER, bits=8),
    Annotation(Kind.INTEGER, bits=16),
    Annotation(Kind.INTEGER, bits=32),
    Annotation(Kind.INTEGER, bits=64),
    Annotation(Kind.JSON),
    Annotation(Kind.BSON),
    Annotation(Kind.INTERVAL),
)


@dataclass(frozen=True, kw_only=True)
class Element:
    """One node of the schema. Groups have no physical type."""

    name: str
    repetition: Repetition = Repetition.REQUIRED
    physical: Physical | None = None
    length: int = 0
    children: int = 0
    field_id: int | None = None
    annotation: Annotation | None = None
    has_odd_logical_type: bool = False
    """Whether it bears a logical type that is not known here, so that its annotation is the converted type."""

    is_ordered: bool = True
    """Whether it is known by which order a writer found the least and the greatest value."""

    @property
    def kind(self) -> Kind | None:
        return None if self.annotation is None else self.annotation.kind

    @classmethod
    def from_thrift(cls, fields: Mapping[int, Any]) -> Element:
        """Read the struct `SchemaElement`."""
        logical, converted = fields.get(10), fields.get(6)
        annotation = Annotation.from_logical(logical) if logical else None
        odd = annotation is not None and annotation.kind is Kind.FOREIGN
        if annotation is not None and annotation.kind is Kind.NULL and converted is not None:
            # parquet-mr writes UNKNOWN for what has a converted type only, such as INTERVAL.
            odd = True
        # The converted type is for readers that do not know the logical type, which says more where both are known.
        if converted is not None and (annotation is None or odd):
            known = 0 <= converted < len(_CONVERTED)
            annotation = _CONVERTED[converted] if known else Annotation(Kind.FOREIGN)
            if annotation.kind is Kind.DECIMAL:
                annotation = Annotation(Kind.DECIMAL, scale=fields.get(7, 0), precision=fields.get(8, 0))
        physical, name, field_id = fields.get(1), fields[4], fields.get(9)
        if not isinstance(name, bytes):
            raise TypeError("a name must be text")
        return cls(
            name=name.decode(),
            repetition=Repetition(fields.get(3, 0)),
            physical=None if physical is None or fields.get(5) else Physical(physical),
            length=_type_length(fields.get(2, 0)),
            children=index(fields.get(5, 0)),
            # Parquet libraries in C++ store -1 where there is no id.
            field_id=field_id if field_id is not None and field_id >= 0 else None,
            annotation=annotation,
            has_odd_logical_type=odd,
            is_ordered=not odd,
        )


def _type_length(stored: Any) -> int:
    length = index(stored)
    if not 0 <= length <= _MAX_TYPE_LENGTH:
        raise ValueError(f"a type_length of {length} does not fit the 31 bits that it has")
    return length
