"""Types that Iceberg can name and Arrow cannot hold."""

from __future__ import annotations

import pytest
from pyiceberg.types import DecimalType, FixedType, IcebergType

from formatkit.batches.arrow.types import arrow_type
from formatkit.errors import UnsupportedError


@pytest.mark.parametrize(
    "kind", [FixedType(2**31), FixedType(2**63 - 1), FixedType(2**70), FixedType(-1), DecimalType(10, 2**40)]
)
def test_a_type_beyond_what_arrow_can_hold_is_unsupported(kind: IcebergType) -> None:
    with pytest.raises(UnsupportedError, match="has no Arrow form"):
        arrow_type(kind)
