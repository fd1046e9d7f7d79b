"""Tells which rows of a batch belong to which partition."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import UnknownTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, FloatType

from formatkit.batches.arrow.columns import column_finder
from formatkit.batches.arrow.types import Column
from formatkit.contract.fields import field_path
from formatkit.errors import UnsupportedError
from formatkit.write.float_bits import float_bits
from formatkit.write.partition.transforms import compile_transform

__all__ = ["Partition", "Partitioner", "Split"]

Codes = NDArray[np.int64]

_MOST_CODES = 1 << 16
"""Up to so many codes rows are sorted by counting."""


@dataclass(frozen=True)
class Partition:
    """One partition of a spec.

    Attributes:
        key: Equal for the same partition only: floats by their bits, since NaN equals itself here and −0.0 is not 0.0.
        values: The partition's values in the order of the spec, as manifests store them.
    """

    key: tuple[Any, ...]
    values: Record


@dataclass(frozen=True)
class Split:
    """A batch by partition.

    Attributes:
        parts: The rows of each partition, in their order.
        clustered: Whether the rows of each partition followed each other before.
        shared_bytes: The memory of all rows, if the parts are slices that share it.
    """

    parts: list[tuple[Partition, pa.RecordBatch]]
    clustered: bool
    shared_bytes: int = 0


class Partitioner:
    """Splits batches of a schema by the partitions of a spec.

    Raises:
        UnsupportedError: The spec has a transform that is not known, or the schema lacks one of its columns.
    """

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        self._columns = [_column(field, schema) for field in spec.fields]
        self._partitions: dict[tuple[Any, ...], Partition] = {}

    def split(self, batch: pa.RecordBatch) -> Split:
        """The batch by partition; if it is clustered, in the order of its rows."""
        codes, keys = np.zeros(batch.num_rows, np.int64), [()]
        for column in self._columns:
            codes, keys = _combined(codes, keys, column.keys(batch))
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        found = codes[starts]
        clustered = len(starts) <= len(keys) and len(np.unique(found)) == len(found)
        if clustered:
            lengths = np.diff(starts, append=batch.num_rows)
        else:
            batch = batch.take(_order(codes, len(keys)))
            counts = np.bincount(codes)
            found = np.flatnonzero(counts)
            lengths = counts[found]
            starts = np.cumsum(lengths) - lengths
        parts = [
            (self._partition(keys[code]), batch.slice(start, length))
            for code, start, length in zip(found.tolist(), starts.tolist(), lengths.tolist(), strict=True)
        ]
        return Split(parts, clustered, shared_bytes=batch.nbytes if len(parts) > 1 else 0)

    def _partition(self, key: tuple[Any, ...]) -> Partition:
        if key not in self._partitions:
            values = (column.value(part) for column, part in zip(self._columns, key, strict=True))
            self._partitions[key] = Partition(key, Record(*values))
        return self._partitions[key]


@dataclass(frozen=True)
class _Column:
    """One partition field.

    Attributes:
        keys: The field's values for a batch, as something that is equal only if they are.
        value: The value that such a key stands for.
    """

    keys: Callable[[pa.RecordBatch], Column]
    value: Callable[[Any], Any]


def _column(field: PartitionField, schema: Schema) -> _Column:
    if isinstance(field.transform, VoidTransform):
        return _Column(lambda batch: pa.nulls(batch.num_rows), lambda _: None)
    if isinstance(field.transform, UnknownTransform) or field.source_id not in schema.field_ids:
        reason = "its transform is unknown" if field.source_id in schema.field_ids else "its column was dropped"
        raise UnsupportedError(
            f"cannot write to the partition field {field.name!r}: {reason}; replace it in the table's partition spec"
        )
    path, source = field_path(schema, field.source_id)
    find, transform = column_finder(path), compile_transform(field.transform, source.field_type)
    if isinstance(source.field_type, FloatType | DoubleType):
        return _Column(lambda batch: float_bits(transform(find(batch))), _float_of_bits(source.field_type))
    return _Column(lambda batch: _numbers(transform(find(batch))), lambda key: key)


def _combined(codes: Codes, keys: list[tuple[Any, ...]], column: Column) -> tuple[Codes, list[tuple[Any, ...]]]:
    """Number the pairs of what the rows were told apart by so far and of their values in one more column."""
    encoded = column.dictionary_encode("encode")
    values = encoded.dictionary.to_pylist()
    pairs = codes * len(values) + encoded.indices.to_numpy()
    if len(keys) == 1:
        return pairs, [(*keys[0], value) for value in values]
    found, numbered = _numbered(pairs, len(keys) * len(values))
    return numbered, [(*keys[pair // len(values)], values[pair % len(values)]) for pair in found.tolist()]


def _numbered(codes: Codes, count: int) -> tuple[Codes, Codes]:
    """The codes that occur, and for each row the ordinal of its code among them."""
    if count > max(_MOST_CODES, 4 * len(codes)):
        return np.unique(codes, return_inverse=True)
    occurs = np.zeros(count, np.bool_)
    occurs[codes] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes]


def _order(codes: Codes, count: int) -> Codes:
    """The rows sorted by code, those of one code in their order."""
    return np.argsort(codes.astype(np.uint16) if count <= _MOST_CODES else codes, kind="stable")


def _numbers(column: Column) -> Column:
    """Moments as numbers; everything else as it is."""
    return column.view(f"int{column.type.bit_width}") if pa.types.is_temporal(column.type) else column


def _float_of_bits(kind: FloatType | DoubleType) -> Callable[[int | None], float | None]:
    form = ("<i", "<f") if isinstance(kind, FloatType) else ("<q", "<d")
    return lambda bits: None if bits is None else struct.unpack(form[1], struct.pack(form[0], bits))[0]
