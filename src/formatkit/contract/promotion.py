"""Which stored types may be read as which table types."""

from __future__ import annotations

from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    UnknownType,
    UUIDType,
)

from formatkit.contract.variant import VariantType

__all__ = ["is_promotion"]

_WIDER: dict[type[IcebergType], tuple[type[IcebergType], ...]] = {
    IntegerType: (LongType,),
    FloatType: (DoubleType,),
    # Never to the types with a zone: a date does not say where its day begins.
    DateType: (TimestampType, TimestampNanoType),
    BinaryType: (StringType, GeometryType, GeographyType),
}
_VARIANT_PARTS = [("metadata", "binary"), ("value", "binary")]


def is_promotion(file_type: IcebergType, table_type: IcebergType) -> bool:
    """Whether values of `file_type` may be read as `table_type`, which may be the same type.

    Nested types are judged by their kind alone; their children are fields of their own. Beyond the promotions of the
    spec, `fixed(16)` is read as `uuid`, `binary` as `string`, `geometry` and `geography`, and a struct of a variant's
    parts as `variant`, since many writers store them without saying so.
    """
    if isinstance(file_type, UnknownType) or isinstance(table_type, UnknownType):
        # Nothing is ever stored for `unknown`, so what is read is null in both directions.
        return True
    if isinstance(file_type, StructType) and isinstance(table_type, VariantType):
        return sorted((field.name, str(field.field_type)) for field in file_type.fields) == _VARIANT_PARTS
    if isinstance(file_type, StructType | ListType | MapType):
        return type(file_type) is type(table_type)
    if isinstance(file_type, DecimalType) and isinstance(table_type, DecimalType):
        return file_type.scale == table_type.scale and file_type.precision <= table_type.precision
    if isinstance(file_type, FixedType) and isinstance(table_type, UUIDType):
        return len(file_type) == 16
    return file_type == table_type or isinstance(table_type, _WIDER.get(type(file_type), ()))
