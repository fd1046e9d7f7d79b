"""Decides from metadata whether a data file may hold rows that match a filter."""

from __future__ import annotations

from pyiceberg.expressions import AlwaysFalse, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata

from formatkit.kernel.predicates import leaves
from formatkit.scan.bounds import ManifestMetrics
from formatkit.scan.manifests import Content, ManifestEntry
from formatkit.scan.partitions import PartitionPruner, simplify

__all__ = ["ConflictFilter"]


class ConflictFilter:
    """A filter, bound to a table's schema, as planning would apply it to files."""

    def __init__(self, predicate: BooleanExpression, metadata: TableMetadata) -> None:
        self._specs = metadata.specs()
        self._pruners = {id_: PartitionPruner(spec, metadata.schema(), predicate) for id_, spec in self._specs.items()}
        columns = {leaf.term.ref().field.field_id: leaf.term.ref().field for leaf in leaves(predicate)}
        self._metrics = ManifestMetrics(columns.values(), metadata.schema())

    def may_match(self, file: DataFile) -> bool:
        entry = ManifestEntry(
            content=Content(int(file.content)),
            location=file.file_path,
            file_format=str(file.file_format),
            spec_id=file.spec_id,
            partition={
                field.field_id: file.partition[position]
                for position, field in enumerate(self._specs[file.spec_id].fields)
            },
            row_count=file.record_count,
            size_bytes=file.file_size_in_bytes,
            split_offsets=(),
            sequence_number=0,
            value_counts=file.value_counts or {},
            null_counts=file.null_value_counts or {},
            nan_counts=file.nan_value_counts or {},
            lower_bounds=file.lower_bounds or {},
            upper_bounds=file.upper_bounds or {},
        )
        if file.record_count == 0:
            return False
        residual = self._pruners[file.spec_id].residual(entry.partition)
        return simplify(residual, self._metrics.of(entry)) is not AlwaysFalse()
