"""Which Iceberg type the values of a Parquet leaf have."""

from __future__ import annotations

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

__all__ = ["DEFAULT_CRS", "GEOGRAPHY_ALGORITHMS", "primitive_type", "spelled"]

_MAX_DECIMAL_PRECISION = 38
_UUID_LENGTH = 16
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


def primitive_type(element: Element) -> PrimitiveType | None:
    """The type, or None if Iceberg has none that holds every value."""
    physical, annotation = element.physical, element.annotation
    if physical is None:
        return None
    if annotation is None:
        return FixedType(element.length) if physical is Physical.FIXED else _PLAIN[physical]
    if annotation.kind is Kind.NULL:
        return UnknownType()
    if annotation.kind is Kind.DECIMAL:
        return _decimal(physical, annotation)
    match physical:
        case Physical.INT32 | Physical.INT64:
            return _integer_based(physical, annotation)
        case Physical.BYTE_ARRAY:
            return _geo(annotation) or _TEXT_AND_BYTES.get(annotation.kind)
        case Physical.FIXED if annotation.kind is Kind.UUID and element.length == _UUID_LENGTH:
            return UUIDType()
        case Physical.FIXED if annotation.kind is Kind.FLOAT16:
            return FloatType()
    return None


def _decimal(physical: Physical | None, annotation: Annotation) -> PrimitiveType | None:
    if physical not in (Physical.INT32, Physical.INT64, Physical.BYTE_ARRAY, Physical.FIXED):
        return None
    if not (1 <= annotation.precision <= _MAX_DECIMAL_PRECISION and 0 <= annotation.scale <= annotation.precision):
        return None
    return DecimalType(annotation.precision, annotation.scale)


def _integer_based(physical: Physical, annotation: Annotation) -> PrimitiveType | None:
    narrow = physical is Physical.INT32
    match annotation.kind:
        case Kind.DATE if narrow:
            return DateType()
        case Kind.TIME if narrow == (annotation.unit is Unit.MILLIS) and annotation.unit is not Unit.NANOS:
            return TimeType()
        case Kind.TIMESTAMP if not narrow and annotation.unit is Unit.NANOS:
            return TimestamptzNanoType() if annotation.utc else TimestampNanoType()
        case Kind.TIMESTAMP if not narrow:
            return TimestamptzType() if annotation.utc else TimestampType()
        case Kind.INTEGER if narrow and annotation.bits <= (32 if annotation.signed else 16):
            return IntegerType()
        case Kind.INTEGER if annotation.signed != narrow and annotation.bits >= 32:
            return LongType()
    return None


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
