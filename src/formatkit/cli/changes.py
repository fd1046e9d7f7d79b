"""The commands that change rows of a table: `append` and `delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from formatkit.cli.options import (
    AsJson,
    Branch,
    Catalog,
    CatalogUri,
    DryRun,
    IgnoreCase,
    NewFormat,
    Property,
    TableArgument,
    Warehouse,
)
from formatkit.cli.targets import CatalogAccess, opened_table

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["append", "delete", "print_snapshot"]

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILES...", help="Data files to take rows from, of any format.", show_default=False),
]
Mode = Annotated[
    Literal["merge-on-read", "copy-on-write"],
    typer.Option(
        "--mode",
        help="merge-on-read writes which rows are deleted; copy-on-write writes the other rows anew.",
    ),
]


def append(
    table: TableArgument,
    files: Files,
    file_format: NewFormat = None,
    branch: Branch = "main",
    as_json: AsJson = False,
    catalog: Catalog = None,
    catalog_uri: CatalogUri = None,
    warehouse: Warehouse = None,
    properties: Property = None,
) -> None:
    """Add the rows of data files to a table, in one snapshot. Columns are matched by name."""
    import formatkit

    access = CatalogAccess(name=catalog, uri=catalog_uri, warehouse=warehouse, assignments=properties or ())
    with opened_table(table, access) as opened:
        rows = [formatkit.read_file(file) for file in files]
        print_snapshot(formatkit.append(opened, rows, file_format, branch=branch), as_json)


def delete(
    table: TableArgument,
    where: Annotated[str, typer.Option("--where", "-w", metavar="FILTER", help="Rows to delete.", show_default=False)],
    mode: Mode = "merge-on-read",
    dry_run: DryRun = False,
    ignore_case: IgnoreCase = False,
    branch: Branch = "main",
    as_json: AsJson = False,
    catalog: Catalog = None,
    catalog_uri: CatalogUri = None,
    warehouse: Warehouse = None,
    properties: Property = None,
) -> None:
    """Delete the rows that match a filter, in one snapshot. With --dry-run only count them."""
    import formatkit
    from formatkit.cli.terminal import note, print_json

    access = CatalogAccess(name=catalog, uri=catalog_uri, warehouse=warehouse, assignments=properties or ())
    with opened_table(table, access) as opened:
        if dry_run:
            head = opened.metadata.snapshot_by_name(branch) if branch != "main" else None
            at = None if head is None else head.snapshot_id
            found = formatkit.scan(opened, where, snapshot_id=at, case_sensitive=not ignore_case).count()
            if as_json:
                print_json({"rows": found})
            else:
                note(f"{found} rows match; nothing was deleted")
            return
        snapshot = formatkit.delete(opened, where, mode, case_sensitive=not ignore_case, branch=branch)
        print_snapshot(snapshot, as_json)


def print_snapshot(snapshot: Snapshot | None, as_json: bool) -> None:
    """Say what a change did."""
    from formatkit.cli.terminal import note, print_json, print_table

    summary = {} if snapshot is None or snapshot.summary is None else dict(snapshot.summary.additional_properties)
    if as_json:
        print_json({"snapshot_id": None if snapshot is None else snapshot.snapshot_id, "summary": summary})
    elif snapshot is None:
        note("No rows: nothing was changed")
    else:
        facts = {"snapshot": str(snapshot.snapshot_id), **summary}
        print_table(("fact", "value"), ((key.replace("-", " "), value) for key, value in facts.items()))
