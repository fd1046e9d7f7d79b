"""Files that list the checks which are known to fail, with the reasons.

They are TOML. A reason that stands alone is for every run; one in a table is for the format of this name, or for a
format with one batch type. The word for runs of batch types is ``batches``::

    a_check = "reason"

    [lance]
    another_check = "reason"

    [parquet."polars.DataFrame"]
    a_third_check = "reason"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from formatkit.errors import ConfigurationError
from formatkit.tck.runner import Subject

__all__ = ["read_known_failures"]


def read_known_failures(path: PathLike[str], subject: Subject[Any]) -> dict[str, str]:
    """The reasons that a file gives for a subject, by the name of the check."""
    try:
        tree = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read the known failures in {path}: {error}") from error
    return _reasons(tree, path, (subject.file_format or "batches", subject.batch_type_name))


def _reasons(tree: Mapping[str, Any], path: PathLike[str], way: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for name, value in tree.items():
        if isinstance(value, str):
            found[name] = value
        elif not isinstance(value, dict):
            raise ConfigurationError(f"{path} gives {value!r} as the reason why {name} fails; a reason is a text")
    below = tree.get(way[0]) if way else None
    return {**found, **_reasons(below, path, way[1:])} if isinstance(below, dict) else found
