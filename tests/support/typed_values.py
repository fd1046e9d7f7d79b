"""Values of every flat Iceberg type in ascending order, and Arrow columns of them built without formatkit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import inf, nan
from typing import Any

import pyarrow as pa
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
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

__all__ = ["ALL_TYPES", "FLOAT_EXTRAS", "TypedValues"]

FLOAT_EXTRAS = (nan, -0.0)
_LONGEST = 2**63 - 1


@dataclass(frozen=True)
class TypedValues:
    """One Iceberg type, the Arrow type that holds it, and internal values of it, ascending and distinct."""

    iceberg: IcebergType
    arrow: Any
    ascending: Sequence[Any]

    @property
    def is_float(self) -> bool:
        return isinstance(self.iceberg, FloatType | DoubleType)

    @property
    def with_specials(self) -> list[Any]:
        """All values, a null and, for floats, NaN and −0.0; in no order."""
        specials = [None, *(FLOAT_EXTRAS if self.is_float else ())]
        return [*reversed(self.ascending), *specials, *self.ascending, None]

    def column(self, values: Sequence[Any]) -> Any:
        if isinstance(self.iceberg, UUIDType):
            return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
        return pa.array(values, self.arrow)

    def __str__(self) -> str:
        return str(self.iceberg)


ALL_TYPES = [
    TypedValues(BooleanType(), pa.bool_(), [False, True]),
    TypedValues(IntegerType(), pa.int32(), [-(2**31), -1, 0, 7, 2**31 - 1]),
    TypedValues(LongType(), pa.int64(), [-_LONGEST - 1, -1, 0, 2**40, _LONGEST]),
    TypedValues(FloatType(), pa.float32(), [-inf, -1.5, 0.0, 0.5, inf]),
    TypedValues(DoubleType(), pa.float64(), [-inf, -1e300, 0.0, 5e-324, 0.1, inf]),
    TypedValues(DecimalType(9, 2), pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.00"), Decimal("1.10")]),
    TypedValues(DecimalType(38, 10), pa.decimal128(38, 10), [Decimal("-1e27"), Decimal("0E-10"), Decimal("1e-10")]),
    TypedValues(DateType(), pa.date32(), [-(2**31), -719162, -1, 0, 18262, 2**31 - 1]),
    TypedValues(TimeType(), pa.time64("us"), [0, 1, 86_399_999_999]),
    TypedValues(TimestampType(), pa.timestamp("us"), [-_LONGEST, -1, 0, 1_577_836_800_000_001, _LONGEST]),
    TypedValues(TimestamptzType(), pa.timestamp("us", "UTC"), [-_LONGEST, -1, 0, 1_577_836_800_000_001, _LONGEST]),
    TypedValues(TimestampNanoType(), pa.timestamp("ns"), [-_LONGEST, -1, 0, 1_577_836_800_000_000_001, _LONGEST]),
    TypedValues(TimestamptzNanoType(), pa.timestamp("ns", "UTC"), [-_LONGEST, -1, 0, 1, _LONGEST]),
    TypedValues(StringType(), pa.string(), ["", "\0", "a", "a\0", "ab", "b", "é", "\ud7ff", "\uffff", "\U0001f600"]),
    TypedValues(UUIDType(), pa.uuid(), [bytes(15) + b"\1", b"\x7f" + b"\xff" * 15, b"\x80" + bytes(15), b"\xff" * 16]),
    TypedValues(FixedType(2), pa.binary(2), [b"\0\0", b"\x7f\xff", b"\x80\0", b"\xff\xff"]),
    TypedValues(BinaryType(), pa.binary(), [b"", b"\0", b"\x7f", b"\x80", b"\x80\0", b"\xff\xff"]),
]
