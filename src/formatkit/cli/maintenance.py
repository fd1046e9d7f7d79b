"""The commands that change how a table is stored, and none of its rows: `rewrite` and `clean-orphans`."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from formatkit.cli.jobs import EngineName, Master, SparkSettings, chosen_engine, progress_bar
from formatkit.cli.options import (
    AsJson,
    Branch,
    Catalog,
    CatalogUri,
    DryRun,
    NewFormat,
    Property,
    TableArgument,
    Warehouse,
)
from formatkit.cli.targets import CatalogAccess, opened_table
from formatkit.errors import ConfigurationError

if TYPE_CHECKING:
    from formatkit.write.orphans import OrphanReport

__all__ = ["clean_orphans", "rewrite"]

_AGE = re.compile(r"(\d+)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SHOWN_FILES = 20


def rewrite(
    table: TableArgument,
    file_format: NewFormat = None,
    where: Annotated[
        str | None, typer.Option("--where", "-w", metavar="FILTER", help="Only files that may have such rows.")
    ] = None,
    target_file_size: Annotated[
        int | None, typer.Option("--target-file-size", min=1, metavar="BYTES", help="About how long files should be.")
    ] = None,
    sort: Annotated[
        list[str] | None,
        typer.Option("--sort", metavar="COLUMN", help='Sort each new file: "a", "a desc". May be repeated.'),
    ] = None,
    all_files: Annotated[
        bool, typer.Option("--all-files", help="Rewrite files for which there is no reason, too.")
    ] = False,
    set_default: Annotated[
        bool,
        typer.Option("--set-default", help="Make the format the table's default, for all writers."),
    ] = False,
    max_commits: Annotated[
        int,
        typer.Option("--max-commits", min=1, metavar="N", help="Commit the work in at most N parts as it goes on."),
    ] = 1,
    job_id: Annotated[
        str | None,
        typer.Option(
            "--job-id", metavar="NAME", help="Go on with the job of this name, where it was stopped, or begin it."
        ),
    ] = None,
    dry_run: DryRun = False,
    branch: Branch = "main",
    engine: EngineName = "local",
    master: Master = None,
    spark_settings: SparkSettings = None,
    as_json: AsJson = False,
    catalog: Catalog = None,
    catalog_uri: CatalogUri = None,
    warehouse: Warehouse = None,
    properties: Property = None,
) -> None:
    """Write files anew: join short ones, apply deletes, change the format, sort. No row changes."""
    import formatkit
    from formatkit.cli.terminal import print_json, print_lines

    access = CatalogAccess(name=catalog, uri=catalog_uri, warehouse=warehouse, assignments=properties or ())
    with (
        opened_table(table, access) as opened,
        chosen_engine(engine, master, spark_settings) as chosen,
        progress_bar("rows") as progress,
    ):
        result = formatkit.rewrite(
            opened,
            file_format,
            where,
            target_file_size,
            sort=sort,
            all_files=all_files,
            set_default=set_default,
            max_commits=max_commits,
            job_id=job_id,
            engine=chosen,
            dry_run=dry_run,
            progress=progress,
            branch=branch,
        )
    if as_json:
        print_json(
            {
                "job_id": result.job_id,
                "snapshot_id": None if result.snapshot is None else result.snapshot.snapshot_id,
                "snapshot_ids": [snapshot.snapshot_id for snapshot in result.snapshots],
                "files": result.plan.files,
                "rewritten_files": len(result.plan.rewritten),
                "rewritten_rows": result.plan.rows,
                "rewritten_bytes": result.plan.bytes,
                "added_files": result.added_files,
                "added_bytes": result.added_bytes,
            }
        )
    else:
        print_lines(str(result))


def clean_orphans(
    table: TableArgument,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the files; without it they are only listed.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the files, which is also what happens without --delete.")
    ] = False,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="The least age of files that count: 3d, 36h, 2w. Longer than any write.",
        ),
    ] = "3d",
    location: Annotated[
        str | None, typer.Option("--location", metavar="URI", help="A folder of the table to look at instead of all.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let files younger than 24 hours count, too.")] = False,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="No other table, of any catalog, has files in the table's folders.")
    ] = False,
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal",
            metavar="URI",
            help="Where to write what will be deleted; in the table's metadata folder if left out.",
        ),
    ] = None,
    engine: EngineName = "local",
    master: Master = None,
    spark_settings: SparkSettings = None,
    as_json: AsJson = False,
    catalog: Catalog = None,
    catalog_uri: CatalogUri = None,
    warehouse: Warehouse = None,
    properties: Property = None,
) -> None:
    """Find the files of a table that nothing refers to, as killed writers leave them. Deletes nothing by itself."""
    from formatkit.cli.terminal import print_json
    from formatkit.write.orphans import clean_orphans

    access = CatalogAccess(name=catalog, uri=catalog_uri, warehouse=warehouse, assignments=properties or ())
    if delete and dry_run:
        raise ConfigurationError("--delete and --dry-run contradict each other; leave one of them out")
    with (
        opened_table(table, access) as opened,
        chosen_engine(engine, master, spark_settings) as chosen,
        progress_bar("files") as progress,
    ):
        report = clean_orphans(
            opened,
            older_than=_age(older_than),
            dry_run=not delete,
            location=location,
            force=force,
            location_is_exclusive=exclusive,
            journal=journal,
            engine=chosen,
            progress=progress,
        )
    if as_json:
        print_json(
            {
                "orphans": [
                    {"location": file.location, "size_bytes": file.size_bytes, "modified": str(file.modified)}
                    for file in report.orphans
                ],
                "size_bytes": report.size_bytes,
                "too_young": report.too_young,
                "searched": report.searched,
                "kept": dict(report.kept),
                "blocked": report.blocked,
                "journal": report.journal,
                "deleted": report.deleted,
                "failures": report.failures,
            }
        )
    else:
        _print_report(report, deleting=delete)
    if report.failures:
        raise typer.Exit(1)


def _print_report(report: OrphanReport, *, deleting: bool) -> None:
    from formatkit.cli.terminal import note, print_table

    if report.orphans:
        shown = report.orphans[:_SHOWN_FILES]
        print_table(
            ("file", "bytes", "modified"),
            ((file.location, file.size_bytes, f"{file.modified:%Y-%m-%d %H:%M}") for file in shown),
        )
        if len(shown) < len(report.orphans):
            note(f"… and {len(report.orphans) - len(shown)} more; --json lists all of them.")
    for location, reason in report.failures.items():
        note(f"cannot delete {location}: {reason}")
    note(
        f"{len(report.orphans)} of {report.searched} files are orphans, {report.size_bytes:,} bytes; "
        f"{report.too_young} more are too young to tell."
    )
    if report.kept:
        note(f"{len(report.kept)} files are kept to which the table does not refer; --json lists them:")
        for reason, count in Counter(report.kept.values()).most_common():
            note(f"  {count}: {reason}")
    for problem in report.blocked:
        note(f"Nothing can be deleted without --exclusive: {problem}.")
    if deleting:
        note(f"{report.deleted} deleted." + (f" Journal: {report.journal}" if report.journal else ""))
    elif report.orphans:
        note("Nothing was deleted. Delete them with --delete.")


def _age(text: str) -> timedelta:
    parts = _AGE.fullmatch(text.strip().lower())
    if parts is None:
        raise ConfigurationError(f"--older-than takes an age such as 3d, 12h or 30m, not {text!r}")
    return timedelta(seconds=int(parts[1]) * _SECONDS[parts[2]])
