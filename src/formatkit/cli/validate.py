"""The command `validate`: whether a table or a data file is what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from formatkit.cli.jobs import EngineName, Master, SparkSettings, chosen_engine, progress_bar
from formatkit.cli.options import AsJson, Catalog, CatalogUri, DryRun, Format, Property, SnapshotId, Target, Warehouse
from formatkit.cli.targets import CatalogAccess, is_location, load_table
from formatkit.errors import FileMissingError, FormatkitError

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["validate"]


def validate(
    target: Target,
    metadata_only: Annotated[
        bool, typer.Option("--metadata-only", help="Decode no rows: only metadata, and whether files exist.")
    ] = False,
    snapshot_id: SnapshotId = None,
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal",
            metavar="FILE",
            help="Note here which files were checked; a run that is started again goes on from there.",
        ),
    ] = None,
    dry_run: DryRun = False,
    engine: EngineName = "local",
    master: Master = None,
    spark_settings: SparkSettings = None,
    as_json: AsJson = False,
    file_format: Format = None,
    catalog: Catalog = None,
    catalog_uri: CatalogUri = None,
    warehouse: Warehouse = None,
    properties: Property = None,
) -> None:
    """Read everything and compare it: counts, bounds, metrics, deletes, references. Fails if there is an error."""
    import formatkit
    from formatkit.cli.terminal import note, print_json, print_table

    access = CatalogAccess(name=catalog, uri=catalog_uri, warehouse=warehouse, assignments=properties or ())
    with chosen_engine(engine, master, spark_settings) as chosen, progress_bar("files") as progress:
        report = formatkit.validate(
            _target(target, access),
            snapshot_id=snapshot_id,
            metadata_only=metadata_only,
            file_format=file_format,
            engine=chosen,
            dry_run=dry_run,
            journal=journal,
            progress=progress,
        )
    if as_json:
        print_json(report.to_dict())
    else:
        if report.findings:
            columns = ("severity", "code", "location", "said", "found", "what to do")
            print_table(columns, ((f.severity, f.code, f.location, f.said, f.found, f.advice) for f in report.findings))
        checked, planned = (
            ", ".join(f"{count} {what}" for what, count in counts.items())
            for counts in (report.checked, report.planned)
        )
        note(f"{'Sound' if report.ok else 'Not sound'}: {checked or 'nothing'} checked")
        if planned:
            note(f"Not checked yet, as this is a dry run: {planned}")
    if not report.ok:
        raise typer.Exit(1)


def _target(target: str, access: CatalogAccess) -> Table | str:
    """The table, or the location of a file; also that of a metadata file that cannot be loaded."""
    try:
        return load_table(target, access) or target
    except FileMissingError:
        raise
    except FormatkitError:
        if not is_location(target):
            raise
        return target
