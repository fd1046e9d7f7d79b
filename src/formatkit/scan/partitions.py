"""Decides from partition values what is left of a predicate, for the files of one partition spec.

Nothing is projected into partition terms. A partition value is a statement about the source column instead (its value,
its range, whether it is null), so that the evaluators which know nulls and NaN already decide here, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    BooleanExpression,
    BoundEqualTo,
    BoundIn,
    BoundIsNull,
    BoundNotNull,
    BoundPredicate,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, UnknownTransform, VoidTransform
from pyiceberg.types import DoubleType, FloatType, IcebergType, NestedField, PrimitiveType, StructType

from formatkit.contract.metrics import ColumnMetrics
from formatkit.contract.pruning import NOTHING, ChunkStatistics, ColumnGate, Hint, Match, count_dropped, match
from formatkit.contract.values import internal_value
from formatkit.forks import cached
from formatkit.kernel.evaluate import evaluate
from formatkit.kernel.predicates import rewrite
from formatkit.scan.bounds import claimed_bound
from formatkit.scan.manifests import FieldSummary
from formatkit.scan.transforms import source_range

__all__ = ["PartitionPruner", "simplify", "union_partition_type"]


@dataclass(frozen=True)
class _Field:
    """A partition field whose source column is still in the schema."""

    field_id: int
    source: NestedField
    transform: Any
    _buckets: dict[int, frozenset[int] | None] = dataclasses.field(default_factory=dict)

    @cached
    def result_type(self) -> IcebergType:
        return self.transform.result_type(self.source.field_type)  # type: ignore[no-any-return]

    @cached
    def gate(self) -> ColumnGate:
        return ColumnGate(self.result_type)

    def buckets(self, leaf: BoundPredicate) -> frozenset[int] | None:
        """In which buckets rows that match a leaf are; None if they may be in any. Hashed once for all files."""
        if id(leaf) not in self._buckets:
            bucket = self.transform.transform(self.source.field_type)
            values = _equal_values(leaf)
            self._buckets[id(leaf)] = None if values is None else frozenset(map(bucket, values))
        return self._buckets[id(leaf)]


@dataclass(frozen=True)
class _Extent:
    """What is known about one partition field, for one file or for all files of a manifest."""

    lower: Any
    upper: Any
    null_count: int | None
    nan_count: int | None = None
    exact: bool = False

    @classmethod
    def of_value(cls, value: Any) -> _Extent:
        return cls(value, value, null_count=int(value is None), exact=True)

    @classmethod
    def of_summary(cls, field: _Field, summary: FieldSummary) -> _Extent | None:
        """What a summary claims; None if it contradicts itself."""
        type_, nan = field.result_type, summary.contains_nan
        if summary.lower is None and summary.upper is None:
            # Nulls and NaN are all that has no bounds.
            if not summary.contains_null and not nan:
                return None
        elif summary.lower is None or summary.upper is None or (nan and not isinstance(type_, FloatType | DoubleType)):
            return None
        only_nulls = summary.contains_null and summary.lower is None and nan is False
        nulls = 1 if only_nulls else None if summary.contains_null else 0
        lower, upper = claimed_bound(type_, summary.lower), claimed_bound(type_, summary.upper)
        return cls(lower, upper, null_count=nulls, nan_count=0 if nan is False else None)

    def sound(self, field: _Field) -> _Extent:
        """The same without bounds that cannot be true."""
        found = field.gate.admit(ColumnMetrics(lower=self.lower, upper=self.upper), 1)
        buckets = field.transform.num_buckets if isinstance(field.transform, BucketTransform) else None
        if buckets is not None and found.lower is not None and not 0 <= found.lower <= found.upper < buckets:
            found = NOTHING
        return self if found.lower is self.lower else replace(self, lower=None, upper=None)


def simplify(predicate: BooleanExpression, statistics: ChunkStatistics) -> BooleanExpression:
    """What is left of a predicate for a chunk: leaves that all its rows or none of them match are gone."""

    def decide(leaf: BoundPredicate) -> BooleanExpression:
        return _as_expression(match(leaf, statistics), leaf)

    return rewrite(predicate, decide)


class PartitionPruner:
    """Applies a predicate, bound to a schema, to the partitions of one spec."""

    def __init__(
        self,
        spec: PartitionSpec,
        schema: Schema,
        predicate: BooleanExpression,
        counters: MutableMapping[str, int] | None = None,
    ) -> None:
        self._predicate = predicate
        self._counters = {} if counters is None else counters
        self._fields = [_field(each, schema) for each in spec.fields]
        self._known = [each for each in self._fields if each is not None]
        self._residuals: dict[tuple[Any, ...], BooleanExpression] = {}

    def constants(self, partition: Mapping[int, Any]) -> dict[int, Any]:
        """The values of identity-partitioned columns, by the column's id."""
        return {
            field.source.field_id: _value(field, partition)
            for field in self._known
            if isinstance(field.transform, IdentityTransform)
        }

    def residual(self, partition: Mapping[int, Any]) -> BooleanExpression:
        """What is left of the predicate for a file of this partition; `AlwaysFalse` if the file has no match."""
        values = tuple(_value(field, partition) for field in self._known)
        residual = self._residuals.get(values)
        if residual is None:
            extents = [(field, _Extent.of_value(value)) for field, value in zip(self._known, values, strict=True)]
            residual = self._residuals[values] = rewrite(self._predicate, _decider(extents))
        return residual

    def can_decide(self, leaf: BoundPredicate) -> bool:
        """Whether a partition may tell something about a leaf."""
        return any(
            not isinstance(field.transform, BucketTransform) or isinstance(leaf, _BUCKETED)
            for field in self._known
            if field.source.field_id == leaf.term.ref().field.field_id
        )

    def may_match(self, summaries: Sequence[FieldSummary]) -> bool:
        """Whether a manifest with these summaries may list files that match."""
        if len(summaries) != len(self._fields):
            if summaries:
                count_dropped(self._counters, Hint.PARTITION_SUMMARIES)
            return True
        extents = []
        for field, summary in zip(self._fields, summaries, strict=True):
            if field is not None:
                claim = _Extent.of_summary(field, summary)
                found = None if claim is None else claim.sound(field)
                if found is not None:
                    extents.append((field, found))
                if found is None or found is not claim:
                    count_dropped(self._counters, Hint.PARTITION_SUMMARIES)
        return rewrite(self._predicate, _decider(extents)) is not AlwaysFalse()


_BUCKETED = (BoundEqualTo, BoundIn, BoundIsNull, BoundNotNull)
"""What the number of a bucket may decide."""


def _field(field: PartitionField, schema: Schema) -> _Field | None:
    if isinstance(field.transform, VoidTransform | UnknownTransform) or field.source_id not in schema.field_ids:
        return None
    return _Field(field.field_id, schema.find_field(field.source_id), field.transform)


def _equal_values(leaf: BoundPredicate) -> set[Any] | None:
    """The values to which a leaf compares for equality."""
    if isinstance(leaf, BoundEqualTo):
        return {leaf.literal.value}
    return leaf.value_set if isinstance(leaf, BoundIn) else None


def _value(field: _Field, partition: Mapping[int, Any]) -> Any:
    return internal_value(field.result_type, partition.get(field.field_id))


def _decider(extents: Sequence[tuple[_Field, _Extent]]) -> Callable[[BoundPredicate], BooleanExpression]:
    """A function that replaces each leaf which the partition decides."""
    by_source: dict[int, list[tuple[_Field, _Extent]]] = {}
    for field, extent in extents:
        by_source.setdefault(field.source.field_id, []).append((field, extent))

    def decide(leaf: BoundPredicate) -> BooleanExpression:
        for field, extent in by_source.get(leaf.term.ref().field.field_id, ()):
            answer = _match(leaf, field, extent)
            if answer is not Match.SOME:
                return _as_expression(answer, leaf)
        return leaf

    return decide


def _match(leaf: BoundPredicate, field: _Field, extent: _Extent) -> Match:
    if extent.exact and isinstance(field.transform, IdentityTransform):
        return Match.ALL if evaluate(leaf, extent.lower) else Match.NONE
    if isinstance(field.transform, BucketTransform) and extent.lower is not None and extent.upper is not None:
        buckets = field.buckets(leaf)
        if buckets is not None and not any(extent.lower <= bucket <= extent.upper for bucket in buckets):
            return Match.NONE
    lower, upper = source_range(field.transform, field.source.field_type, extent.lower, extent.upper)
    metrics = ColumnMetrics(
        value_count=1, null_count=extent.null_count, nan_count=extent.nan_count, lower=lower, upper=upper
    )
    return match(leaf, ChunkStatistics(columns={field.source.field_id: metrics}))


def _as_expression(answer: Match, leaf: BoundPredicate) -> BooleanExpression:
    return _DECIDED.get(answer, leaf)


# There is one of each, but asking for it takes longer than most of what is done for a file.
_DECIDED: dict[Match, BooleanExpression] = {Match.ALL: AlwaysTrue(), Match.NONE: AlwaysFalse()}


def union_partition_type(specs: Sequence[PartitionSpec], schemas: Sequence[Schema], first_id: int) -> StructType:
    """The type of `_partition`: all partition fields that a table ever had, in the order of their ids.

    Fields of different specs may have the same name. The newest of them keeps it, the others get their ids as well.

    Args:
        specs: All specs of the table.
        schemas: All schemas of the table, the current one first.
        first_id: Added to the ids of the fields, which are counted apart from those of columns and must not meet them.
    """
    fields: dict[int, NestedField] = {}
    taken: set[str] = set()
    for spec in sorted(specs, key=lambda each: each.spec_id, reverse=True):
        for field in spec.fields:
            result = _result_type(field, schemas)
            if field.field_id not in fields and result is not None:
                name = f"{field.name}_{field.field_id}" if field.name in taken else field.name
                taken.add(name)
                fields[field.field_id] = NestedField(first_id + field.field_id, name, result, required=False)
    return StructType(*(fields[id_] for id_ in sorted(fields)))


def _result_type(field: PartitionField, schemas: Sequence[Schema]) -> PrimitiveType | None:
    if isinstance(field.transform, VoidTransform | UnknownTransform):
        return None
    for schema in schemas:
        if field.source_id in schema.field_ids:
            result = field.transform.result_type(schema.find_type(field.source_id))
            return result if isinstance(result, PrimitiveType) else None
    return None
