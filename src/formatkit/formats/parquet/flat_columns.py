"""Which columns compiled code can decode: flat ones, in the usual encodings and codecs."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from formatkit.batches.compiled.loading import Payback
from formatkit.formats.parquet.elements import Element, Repetition
from formatkit.formats.parquet.gathered_types import arrow_type
from formatkit.formats.parquet.page_content import KERNELS, PageContents
from formatkit.formats.parquet.projection import Projection

__all__ = ["PAYBACK", "FlatColumn", "flat_column", "has_usual_pages"]

PAYBACK = Payback(KERNELS, 192 * 1024 * 1024)
"""When compiled code is used."""

_ENCODINGS = frozenset({"PLAIN", "RLE", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "BIT_PACKED"})
"""The last one is what Java's writers say of levels that are not stored. Each page tells for itself what it has."""


class FlatColumn(NamedTuple):
    """A column with one value a row, which may be null.

    Attributes:
        leaf: Which leaf it is.
        element: How it is stored.
        kind: The type that pyarrow decodes it to.
    """

    leaf: int
    element: Element
    kind: pa.DataType

    @property
    def optional(self) -> bool:
        return self.element.repetition is Repetition.OPTIONAL


def flat_column(projection: Projection, column: int) -> FlatColumn | None:
    """A column of a projection, by number, if it is one whose values are simply those that are stored."""
    element, leaves = projection.elements[column], projection.leaves_of[column]
    if element is None or element.repetition is Repetition.REPEATED or len(leaves) != 1:
        return None
    kind = arrow_type(element)
    if kind is None or pa.types.is_dictionary(projection.schema.field(column).type):
        return None
    return FlatColumn(leaves[0], element, kind)


def has_usual_pages(chunk: pq.ColumnChunkMetaData, codec: int) -> bool:
    """Whether the pages of a chunk are likely to be such that compiled code can decode them."""
    return PageContents.can_decompress(codec) and _ENCODINGS.issuperset(chunk.encodings)
