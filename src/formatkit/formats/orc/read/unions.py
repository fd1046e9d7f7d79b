"""Unions, which are decoded in parts: their tags in place of them, and each branch as a column of its own.

A branch stores only the values of the rows whose tag names it, one behind the other. In the columns that are handed
out, a union is a struct of its tag and of one field for each branch, of which all but one are null in each row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyiceberg.types import ListType, MapType, StructType

from formatkit.batches.arrow.types import Column
from formatkit.formats.orc.arrays import rebuilt, with_validity
from formatkit.formats.orc.failures import ContentError
from formatkit.formats.orc.projection import Wanted
from formatkit.formats.orc.tail import Kind

__all__ = ["join_branches"]

Branch = Callable[[Wanted, int], Column]
"""Decodes a branch, which has so many values."""


def join_branches(wanted: Wanted, array: Column, branch: Branch) -> Column:
    """A column whose unions were decoded as their tags, with structs in place of these."""
    if not any(one.column.type.kind is Kind.UNION for one in wanted.walk()):
        return array
    match wanted.field.field_type:
        case StructType() if wanted.column.type.kind is Kind.UNION:
            return _union(wanted, array, branch)
        case StructType():
            return _struct(
                array, [join_branches(child, array.field(i), branch) for i, child in enumerate(wanted.decoded)]
            )
        case ListType():
            values = join_branches(wanted.children[0], array.values, branch)
            return rebuilt(pa.list_(values.type), array, array.buffers()[:2], [values])
        case MapType():
            pairs = array.values
            entries = _struct(
                pairs, [join_branches(child, pairs.field(i), branch) for i, child in enumerate(wanted.children)]
            )
            return rebuilt(pa.list_(entries.type), array, array.buffers()[:2], [entries])
    return array


def _struct(like: Column, children: list[Column]) -> Column:
    """A struct of these children, null where `like` is."""
    fields = [pa.field(str(i), child.type) for i, child in enumerate(children)]
    return rebuilt(pa.struct(fields), like, [like.buffers()[0]], children)


def _union(wanted: Wanted, array: Column, branch: Branch) -> Column:
    branches = wanted.column.type.subtypes
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    tags = array.fill_null(0).to_numpy().view(np.uint8).astype(np.int32)
    if (most := int(tags.max(initial=0, where=valid))) >= len(branches) and valid.any():
        raise ContentError(f"column {wanted.field.name!r} has a union of {len(branches)} branches, and the tag {most}")
    children = []
    for child in wanted.decoded:
        if child.column.type_id == wanted.column.type_id:
            children.append(with_validity(tags, array, pa.int32()))
            continue
        chosen = valid & (tags == branches.index(child.column.type_id))
        values = branch(child, int(chosen.sum()))
        children.append(values.take(pa.array(np.cumsum(chosen) - 1, mask=~chosen)))
    return _struct(array, children)
