"""The Iceberg type `variant`, which pyiceberg does not have, and its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field
from pyiceberg.typedef import TableVersion
from pyiceberg.types import PrimitiveType

from formatkit.contract.variant_decoding import decode_variant
from formatkit.contract.variant_encoding import encode_variant

__all__ = ["Variant", "VariantType"]


class VariantType(PrimitiveType):
    """Values of any type and shape, each carrying its own type: version 1 of Parquet's variant encoding.

    For schemas it is a leaf: its two binary parts, metadata and value, have no field ids of their own.
    """

    root: Literal["variant"] = Field(default="variant")

    def minimum_format_version(self) -> TableVersion:
        return 3


@dataclass(frozen=True, slots=True)
class Variant:
    """One value of the type variant, encoded. Equal are those of equal bytes, which not all equal values have.

    Attributes:
        metadata: The names of all object fields in the value.
        value: The value, which refers to names by number.
    """

    metadata: bytes
    value: bytes

    @classmethod
    def of(cls, value: Any) -> Variant:
        """Encode a Python value; see `encode_variant`."""
        return cls(*encode_variant(value))

    def to_python(self) -> Any:
        """The value as Python's own; see `decode_variant`. A variant null is None."""
        return decode_variant(self.metadata, self.value)
