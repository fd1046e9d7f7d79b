"""`overwrite`: new rows take the place of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.registry import FormatRegistry
from formatkit.write.commit import UncommittedFiles, commit
from formatkit.write.incoming import ArrowData
from formatkit.write.operations.base import Base, whole_files
from formatkit.write.operations.delete import remove_rows
from formatkit.write.operations.matches import find_matches
from formatkit.write.operations.output import Output
from formatkit.write.operations.partitions import partition_in_words, partition_record
from formatkit.write.operations.removal import Removal

__all__ = ["overwrite", "remove_partitions"]


def overwrite(
    table: Table,
    data: ArrowData,
    where: str | BooleanExpression | None = None,
    file_format: str | None = None,
    *,
    partitions: bool = False,
    case_sensitive: bool = True,
    branch: str = "main",
    snapshot_properties: Mapping[str, str] | None = None,
    registry: FormatRegistry | None = None,
) -> Snapshot | None:
    """Replace the rows that match a filter with new ones, in one snapshot. The table object then shows it.

    Files of which all rows match are taken out of the table by their metadata alone; of the others the rows that do not
    match are written anew. The new rows need not match.

    Args:
        table: A table of a catalog.
        data: The new rows: a record batch, table or reader, a Polars, pandas or DuckDB frame, or an iterable of these.
        where: Which rows go, as text or as a pyiceberg expression; all of them if left out.
        file_format: For new files; `write.format.default` by default.
        partitions: Replace, instead of the rows that match a filter, the partitions that the data has rows for.
        case_sensitive: Whether case matters in names.
        branch: The branch to change; one that is not there yet begins at the main branch.
        snapshot_properties: What the snapshot's summary is to say as well.
        registry: Where formats are looked up; everything that is installed by default.

    Returns:
        The new snapshot, or None if no row goes and none comes: then nothing is committed.

    Raises:
        CommitConflictError: Another writer changed the same files, or added rows that would have to go.
        UnsupportedError: `partitions` was asked for, but files of the table are partitioned by an older spec.
        SchemaResolutionError, MissingRequiredFieldError, InvalidDataError: The data does not fit the table.
        ColumnNotFoundError, AmbiguousColumnError, InvalidPredicateError, ConfigurationError: The arguments are wrong.
    """
    if partitions and where is not None:
        raise ConfigurationError("give either a filter or partitions=True, which says by itself what is replaced")
    base = Base.of(table, branch, registry)
    predicate = base.bind(where, case_sensitive=case_sensitive)
    with UncommittedFiles(table.io) as files:
        output = Output(base, table.io, files, file_format)
        added = output.write_data(data)
        if partitions:
            removal = remove_partitions(base, added)
        else:
            removal = remove_rows(base, find_matches(base, predicate), output, "copy-on-write")
        if removal.is_empty and not added:
            return None
        change = removal.change(
            added,
            base_snapshot_id=base.snapshot_id,
            conflict_filter=predicate,
            command="update",
            properties=snapshot_properties or {},
        )
        return commit(table, change, branch=branch, files=files)


def remove_partitions(base: Base, added: Iterable[DataFile]) -> Removal:
    """Take out all files of the partitions that new files are in."""
    metadata = base.metadata
    replaced = {partition_in_words(metadata, file.partition, file.spec_id) for file in added}
    removal = Removal()
    for file in whole_files(base.scan(()).tasks):
        if file.spec_id != metadata.default_spec_id:
            message = (
                f"{file.location} is partitioned by the older spec {file.spec_id}, so it may hold rows of the "
                "partitions that are to be replaced; rewrite the table first, or replace rows by a filter"
            )
            raise UnsupportedError(message, location=file.location)
        if partition_in_words(metadata, partition_record(metadata, file), file.spec_id) in replaced:
            removal.remove_files([file])
    return removal
