"""The Iceberg type `variant`, which pyiceberg does not have."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pyiceberg.typedef import TableVersion
from pyiceberg.types import PrimitiveType

__all__ = ["VariantType"]


class VariantType(PrimitiveType):
    """Values of any type and shape, each carrying its own type: version 1 of Parquet's variant encoding.

    For schemas it is a leaf: its two binary parts, metadata and value, have no field ids of their own.
    """

    root: Literal["variant"] = Field(default="variant")

    def minimum_format_version(self) -> TableVersion:
        return 3
