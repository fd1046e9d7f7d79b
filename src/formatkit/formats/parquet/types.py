"""Which Iceberg type the values of a Parquet leaf have, and which annotations change it."""

from __future__ import annotations

from dataclasses import replace

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.formats.parquet.elements import Annotation, Element, Kind, Physical, Unit

__all__ = ["DEFAULT_CRS", "GEOGRAPHY_ALGORITHMS", "as_read", "fits", "is_usual_decimal", "primitive_type", "spelled"]

_MAX_DECIMAL_PRECISION = 38
_DECIMAL_BYTES = 16
_UNSIGNED_LONG = DecimalType(20, 0)
_LENGTHS = {Kind.UUID: 16, Kind.FLOAT16: 2, Kind.INTERVAL: 12}
"""Of fixed-length values, by what they are annotated."""

_WIDE = 64
_NARROW = 32
DEFAULT_CRS = "OGC:CRS84"
GEOGRAPHY_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")

_PLAIN = {
    Physical.BOOLEAN: BooleanType(),
    Physical.INT32: IntegerType(),
    Physical.INT64: LongType(),
    Physical.INT96: TimestamptzType(),
    Physical.FLOAT: FloatType(),
    Physical.DOUBLE: DoubleType(),
    Physical.BYTE_ARRAY: BinaryType(),
}

_TEXT_AND_BYTES = {
    Kind.STRING: StringType(),
    Kind.ENUM: StringType(),
    Kind.JSON: StringType(),
    Kind.BSON: BinaryType(),
}


def fits(element: Element) -> bool:
    """Whether the annotation of a leaf, if it has one, may stand at its physical type."""
    physical, annotation = element.physical, element.annotation
    if annotation is None:
        return True
    match annotation.kind:
        case Kind.NULL:
            return True
        case Kind.DECIMAL:
            return physical in (Physical.INT32, Physical.INT64, Physical.BYTE_ARRAY, Physical.FIXED)
        case Kind.DATE:
            return physical is Physical.INT32
        case Kind.TIME:
            return physical is (Physical.INT32 if annotation.unit is Unit.MILLIS else Physical.INT64)
        case Kind.TIMESTAMP:
            return physical is Physical.INT64
        case Kind.INTEGER:
            bits = (_WIDE,) if physical is Physical.INT64 else (8, 16, _NARROW)
            return physical in (Physical.INT32, Physical.INT64) and annotation.bits in bits
        case Kind.STRING | Kind.ENUM | Kind.JSON | Kind.BSON | Kind.GEOMETRY:
            return physical is Physical.BYTE_ARRAY
        case Kind.GEOGRAPHY:
            known = 0 <= (annotation.algorithm or 0) < len(GEOGRAPHY_ALGORITHMS)
            return physical is Physical.BYTE_ARRAY and known
        case Kind.UUID | Kind.FLOAT16 | Kind.INTERVAL as kind:
            return physical is Physical.FIXED and element.length == _LENGTHS[kind]
    return False


def as_read(element: Element) -> Element:
    """A leaf without an annotation that does not change how its values are read.

    That is one which is not known, or cannot stand at the physical type, or means something that Iceberg has no type
    for although the plain type holds every value. Signed numbers, and those of 8 and 16 bits, are read as stored.
    """
    annotation = element.annotation
    if annotation is None:
        return element
    if not fits(element) or annotation.kind is Kind.INTERVAL:
        return replace(element, annotation=None, is_ordered=False)
    match annotation.kind:
        case Kind.INTEGER:
            is_plain = annotation.signed or annotation.bits < _NARROW
        case Kind.TIME:
            is_plain = annotation.unit is Unit.NANOS
        case _:
            is_plain = False
    return replace(element, annotation=None) if is_plain else element


def primitive_type(element: Element) -> PrimitiveType | None:
    """The type of a leaf as `as_read` returns it, or None if Iceberg has none that holds every value."""
    physical, annotation = element.physical, element.annotation
    if physical is None:
        return None
    if annotation is None:
        return FixedType(element.length) if physical is Physical.FIXED else _PLAIN[physical]
    match annotation.kind:
        case Kind.NULL:
            return UnknownType()
        case Kind.DECIMAL:
            return _decimal(annotation)
        case Kind.DATE:
            return DateType()
        case Kind.TIME:
            return TimeType()
        case Kind.TIMESTAMP if annotation.unit is Unit.NANOS:
            return TimestamptzNanoType() if annotation.utc else TimestampNanoType()
        case Kind.TIMESTAMP:
            return TimestamptzType() if annotation.utc else TimestampType()
        case Kind.INTEGER:
            return _UNSIGNED_LONG if annotation.bits == _WIDE else LongType()
        case Kind.UUID:
            return UUIDType()
        case Kind.FLOAT16:
            return FloatType()
    return _geo(annotation) or _TEXT_AND_BYTES.get(annotation.kind)


def _decimal(annotation: Annotation) -> PrimitiveType | None:
    if not (1 <= annotation.precision <= _MAX_DECIMAL_PRECISION and 0 <= annotation.scale <= annotation.precision):
        return None
    return DecimalType(annotation.precision, annotation.scale)


def is_usual_decimal(element: Element) -> bool:
    """Whether a leaf is a decimal that other libraries decode: of at most 16 bytes, which can hold all its digits."""
    if element.kind is not Kind.DECIMAL:
        return False
    match element.physical:
        case Physical.INT32:
            length = 4
        case Physical.INT64:
            length = 8
        case Physical.FIXED:
            length = element.length
        case _:
            return False
    digits = element.annotation.precision if element.annotation is not None else 0
    return 0 < length <= _DECIMAL_BYTES and 10**digits <= 1 << 8 * length - 1


def _geo(annotation: Annotation) -> PrimitiveType | None:
    crs = annotation.crs or DEFAULT_CRS
    if annotation.kind is Kind.GEOMETRY:
        return GeometryType(crs)
    if annotation.kind is Kind.GEOGRAPHY:
        return GeographyType(crs, GEOGRAPHY_ALGORITHMS[annotation.algorithm or 0])
    return None


def spelled(element: Element) -> str:
    """How a person would write the type of a leaf."""
    physical = element.physical.name if element.physical is not None else "group"
    if element.physical is Physical.FIXED:
        physical = f"FIXED({element.length})"
    annotation = element.annotation
    if annotation is None:
        return physical
    match annotation.kind:
        case Kind.DECIMAL:
            logical = f"DECIMAL({annotation.precision}, {annotation.scale})"
        case Kind.INTEGER:
            logical = f"{'INT' if annotation.signed else 'UINT'}{annotation.bits}"
        case Kind.TIME | Kind.TIMESTAMP:
            logical = f"{annotation.kind.name} in {annotation.unit.name.lower()}"
        case Kind.FOREIGN:
            logical = "an annotation that is not known here"
        case kind:
            logical = kind.name
    return f"{physical} annotated {logical}"
