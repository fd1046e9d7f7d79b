"""Values of every primitive type in ascending order: what filters and metrics are judged with, without an evaluator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.tck.literals import unscaled

__all__ = ["FLOATS", "SAMPLES", "Sample"]

_LONGEST = 2**63 - 1


@dataclass(frozen=True)
class Sample:
    """A type and internal values of it, ascending and distinct; both ends of the type among them."""

    kind: PrimitiveType
    ascending: Sequence[Any]

    @property
    def shuffled(self) -> list[Any]:
        """Every value twice, far from in order, with a null first, one in the middle and one last."""
        return [None, *reversed(self.ascending), None, *self.ascending, None]

    def __str__(self) -> str:
        return str(self.kind)


SAMPLES = (
    Sample(BooleanType(), [False, True]),
    Sample(IntegerType(), [-(2**31), -1, 0, 7, 2**31 - 1]),
    Sample(LongType(), [-_LONGEST - 1, -1, 0, 2**53 + 1, _LONGEST]),
    Sample(FloatType(), [-math.inf, -1.5, 0.0, 0.5, math.inf]),
    Sample(DoubleType(), [-math.inf, -1e300, 0.0, 5e-324, 0.1, math.inf]),
    Sample(DecimalType(9, 2), [unscaled(digits, 2) for digits in (-999_999_999, -1, 0, 110, 999_999_999)]),
    Sample(DecimalType(38, 10), [unscaled(digits, 10) for digits in (1 - 10**38, -1, 0, 1, 10**38 - 1)]),
    Sample(DateType(), [-(2**31), -719_162, -1, 0, 18_262, 2**31 - 1]),
    Sample(TimeType(), [0, 1, 86_399_999_999]),
    Sample(TimestampType(), [-_LONGEST, -1, 0, 1_577_836_800_000_001, _LONGEST]),
    Sample(TimestamptzType(), [-_LONGEST, -1, 0, 1_577_836_800_000_001, _LONGEST]),
    Sample(TimestampNanoType(), [-_LONGEST, -1, 0, 1_577_836_800_000_000_001, _LONGEST]),
    Sample(TimestamptzNanoType(), [-_LONGEST, -1, 0, 1_577_836_800_000_000_001, _LONGEST]),
    Sample(StringType(), ["", "\0", "a", "a\0", "ab", "b", "é", "\ud7ff", "\uffff", "\U0001f600"]),
    Sample(UUIDType(), [bytes(15) + b"\1", b"\x7f" + b"\xff" * 15, b"\x80" + bytes(15), b"\xff" * 16]),
    Sample(FixedType(2), [b"\0\0", b"\x7f\xff", b"\x80\0", b"\xff\xff"]),
    Sample(BinaryType(), [b"", b"\0", b"\x7f", b"\x80", b"\x80\0", b"\xff\xff"]),
)
"""Every primitive type that can be compared."""

FLOATS: tuple[PrimitiveType, ...] = (FloatType(), DoubleType())
