"""The arguments and options that commands share, each described once."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "Analyze",
    "AsJson",
    "Branch",
    "Catalog",
    "CatalogUri",
    "DryRun",
    "Format",
    "IgnoreCase",
    "Limit",
    "NewFormat",
    "Property",
    "Select",
    "SnapshotId",
    "TableArgument",
    "Target",
    "VerifySkipping",
    "Warehouse",
    "Where",
]

_TABLE = "How to find the table"

Target = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="catalog.namespace.table, the location of a table's metadata.json, or a data file.",
        show_default=False,
    ),
]
TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="catalog.namespace.table, of any catalog.", show_default=False)
]
Where = Annotated[
    str | None, typer.Option("--where", "-w", metavar="FILTER", help="""Rows to keep, such as "a > 1 and b is null".""")
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        "-s",
        metavar="COLUMNS",
        help="Columns, separated by commas; metadata columns such as _file and _pos too. May be repeated.",
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=0, metavar="ROWS", help="Stop after so many rows.")]
SnapshotId = Annotated[int | None, typer.Option("--snapshot-id", metavar="ID", help="Read an older snapshot.")]
IgnoreCase = Annotated[bool, typer.Option("--ignore-case", help="Let names of columns match in any case.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
Analyze = Annotated[
    bool,
    typer.Option("--analyze", help="Read everything, throw it away, and show what storage was asked for and how long."),
]
VerifySkipping = Annotated[
    bool,
    typer.Option("--verify-skipping", help="Read what is skipped as well, and fail if a row of it matches."),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="The format of a data file, if its name and bytes do not tell."),
]
NewFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="The format of new files; the table's own default if left out."),
]
Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch to change.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Catalog = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="NAME",
        help="The catalog; TABLE is then namespace.table.",
        rich_help_panel=_TABLE,
    ),
]
CatalogUri = Annotated[
    str | None,
    typer.Option("--catalog-uri", "--uri", metavar="URI", help="Same as --property uri=URI.", rich_help_panel=_TABLE),
]
Warehouse = Annotated[
    str | None,
    typer.Option("--warehouse", metavar="URI", help="Same as --property warehouse=URI.", rich_help_panel=_TABLE),
]
Property = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-p",
        metavar="KEY=VALUE",
        help="A property of the catalog or of its storage, as pyiceberg names it. May be repeated.",
        rich_help_panel=_TABLE,
    ),
]
