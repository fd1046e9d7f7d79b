"""When two spellings of a location mean one file."""

from __future__ import annotations

import os

from formatkit.io import local_path
from formatkit.scan.deletes.locations import canonical_location

__all__ = ["is_inside", "path_of", "place"]


def place(location: str) -> str:
    """The one spelling that stands for a file: the real path of a local file, else scheme, authority and path."""
    path = local_path(location)
    return canonical_location(location) if path is None else os.path.realpath(path)


def path_of(spelled: str) -> str:
    """What is left of a place without its scheme and authority."""
    return spelled.partition("://")[2].partition("/")[2] if "://" in spelled else spelled.lstrip("/")


def is_inside(spelled: str, folder: str) -> bool:
    """Whether a place is in a folder, at whatever depth."""
    return spelled.startswith(folder.rstrip("/") + "/")
