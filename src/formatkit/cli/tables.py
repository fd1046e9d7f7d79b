"""The commands that read: `scan`, `explain` and `count`, on a table or on one data file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formatkit.cli.options import (
    Analyze,
    AsJson,
    Catalog,
    CatalogUri,
    Format,
    IgnoreCase,
    Limit,
    Property,
    Select,
    SnapshotId,
    Target,
    VerifySkipping,
    Warehouse,
    Where,
)
from formatkit.cli.targets import CatalogAccess, load_table
from formatkit.errors import ConfigurationError

if TYPE_CHECKING:
    from formatkit.scan import Scan

__all__ = ["count", "explain", "scan"]

SHOWN_ROWS = 20


def scan(
    table: Target,
    where: Where = None,
    select: Select = None,
    limit: Limit = None,
    snapshot_id: SnapshotId = None,
    ignore_case: IgnoreCase = False,
    verify_skipping: VerifySkipping = False,
    as_json: AsJson = False,
    file_format: Format = None,
    catalog: Catalog = None,
    catalog_uri: CatalogUri = None,
    warehouse: Warehouse = None,
    properties: Property = None,
) -> None:
    """Print rows: a table of the first 20, or with --json every row as a line of JSON."""
    access = CatalogAccess(name=catalog, uri=catalog_uri, warehouse=warehouse, assignments=properties or ())
    # One row more than is shown tells whether there are more.
    rows = limit if limit is not None or as_json else SHOWN_ROWS + 1
    found = _open(
        table,
        access,
        file_format,
        snapshot_id,
        where=where,
        select=select,
        limit=rows,
        ignore=ignore_case,
        verify=verify_skipping,
    )
    if as_json:
        _print_rows_as_json(found)
    else:
        _print_rows(found, shown=SHOWN_ROWS if limit is None else limit)


def explain(
    table: Target,
    where: Where = None,
    select: Select = None,
    limit: Limit = None,
    analyze: Analyze = False,
    snapshot_id: SnapshotId = None,
    ignore_case: IgnoreCase = False,
    verify_skipping: VerifySkipping = False,
    as_json: AsJson = False,
    file_format: Format = None,
    catalog: Catalog = None,
    catalog_uri: CatalogUri = None,
    warehouse: Warehouse = None,
    properties: Property = None,
) -> None:
    """Show what a scan would read, what it leaves out, and who applies which part of the filter."""
    from formatkit.cli.terminal import print_json, print_lines

    access = CatalogAccess(name=catalog, uri=catalog_uri, warehouse=warehouse, assignments=properties or ())
    found = _open(
        table,
        access,
        file_format,
        snapshot_id,
        where=where,
        select=select,
        limit=limit,
        ignore=ignore_case,
        verify=verify_skipping,
    )
    explanation = found.explain(analyze=analyze)
    if as_json:
        print_json(explanation.to_dict())
    else:
        print_lines(str(explanation))


def count(
    table: Target,
    where: Where = None,
    limit: Limit = None,
    snapshot_id: SnapshotId = None,
    ignore_case: IgnoreCase = False,
    verify_skipping: VerifySkipping = False,
    as_json: AsJson = False,
    file_format: Format = None,
    catalog: Catalog = None,
    catalog_uri: CatalogUri = None,
    warehouse: Warehouse = None,
    properties: Property = None,
) -> None:
    """Count rows, from the table's metadata alone where that is exact."""
    from formatkit.cli.terminal import console, print_json

    access = CatalogAccess(name=catalog, uri=catalog_uri, warehouse=warehouse, assignments=properties or ())
    found = _open(
        table,
        access,
        file_format,
        snapshot_id,
        where=where,
        select=[],
        limit=limit,
        ignore=ignore_case,
        verify=verify_skipping,
    )
    rows = found.count()
    if as_json:
        print_json({"count": rows})
    else:
        console().print(rows)


def _open(
    target: str,
    access: CatalogAccess,
    file_format: str | None,
    snapshot_id: int | None,
    *,
    where: str | None,
    select: list[str] | None,
    limit: int | None,
    ignore: bool,
    verify: bool,
) -> Scan:
    import formatkit

    columns = tuple(name.strip() for names in (("*",) if select is None else select) for name in names.split(","))
    arguments: dict[str, Any] = {
        "where": where,
        "select": columns,
        "limit": limit,
        "case_sensitive": not ignore,
        "properties": {"read.verify-skipping": "true"} if verify else None,
    }
    table = load_table(target, access)
    if table is None:
        if snapshot_id is not None:
            raise ConfigurationError(f"--snapshot-id is for tables; {target} is one data file")
        return formatkit.read_file(target, file_format=file_format, **arguments)
    if file_format is not None:
        raise ConfigurationError(f"--format is for a data file; each file of the table {target} has its own")
    return formatkit.scan(table, snapshot_id=snapshot_id, **arguments)


def _print_rows_as_json(found: Scan) -> None:
    from formatkit.cli.json_rows import json_rows
    from formatkit.cli.terminal import print_json

    with found.to_batches() as batches:
        for batch in batches:
            for row in json_rows(found.schema, batch):
                print_json(row)


def _print_rows(found: Scan, shown: int) -> None:
    from formatkit.cli.json_rows import json_rows
    from formatkit.cli.terminal import note, print_table

    rows: list[list[Any]] = []
    with found.to_batches() as batches:
        for batch in batches:
            rows += [list(row.values()) for row in json_rows(found.schema, batch)]
    print_table([field.name for field in found.schema.fields], rows[:shown])
    if len(rows) > shown:
        note(f"The first {shown} rows; there are more. See them with --limit ROWS, or all of them with --json.")
    else:
        note(f"{len(rows)} row{'' if len(rows) == 1 else 's'}")
