"""The command `new-format`: a package for a format of your own, ready to be installed and tested."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated

import typer

from formatkit.errors import ConfigurationError, FileAlreadyExistsError, StorageError, printable

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["new_format"]

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME = 40
_SUFFIX = ".txt"


def new_format(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The name of the format, as in file names: toy.", show_default=False),
    ],
    directory: Annotated[
        Path, typer.Option("--directory", "-d", metavar="FOLDER", help="Where to put the package's folder.")
    ] = Path(),
) -> None:
    """Write a package for a file format of your own: a plugin that works, its entry point, its test, its README."""
    from formatkit.registry import default_registry

    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        message = f"{name!r} cannot be the name of a format; take small letters, digits and dashes, a letter first: toy"
        raise ConfigurationError(message)
    if name in default_registry().names():
        raise ConfigurationError(f"a format {name!r} is installed already; take another name or uninstall it")
    words = name.split("-")
    folder = directory / f"formatkit-{name}"
    _write(
        folder,
        {
            "name": name,
            "distribution": f"formatkit-{name}",
            "package": f"formatkit_{'_'.join(words)}",
            "plugin": f"{''.join(map(str.capitalize, words))}Format",
            "magic": f"{name.upper()}1",
        },
    )
    typer.echo(printable(f"Wrote {folder}. To try it: pip install -e {folder} && pytest {folder}"))


def _write(folder: Path, words: dict[str, str]) -> None:
    if folder.exists():
        raise FileAlreadyExistsError(f"cannot create {folder}: it is already there", location=str(folder))
    try:
        _fill(files("formatkit.cli") / "new_format_template", folder, words)
    except OSError as error:
        raise StorageError(f"cannot create {folder}: {error.strerror}", location=str(folder)) from error


def _fill(template: Traversable, folder: Path, words: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    for entry in template.iterdir():
        if entry.is_dir():
            _fill(entry, folder / (words["package"] if entry.name == "package" else entry.name), words)
        elif entry.name.endswith(_SUFFIX):
            text = Template(entry.read_text(encoding="utf-8")).substitute(words)
            (folder / entry.name.removesuffix(_SUFFIX)).write_text(text, encoding="utf-8")
