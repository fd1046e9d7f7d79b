"""When two spellings of a location mean one file."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from formatkit.io import local_path

__all__ = ["is_inside", "path_of", "place"]

_SAME_STORAGE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}


def place(location: str) -> str:
    """The one spelling that stands for a file: the real path of a local file, else scheme, authority and path."""
    path = local_path(location)
    if path is not None:
        return os.path.realpath(path)
    parts = urlsplit(location, allow_fragments=False)
    scheme = _SAME_STORAGE.get(parts.scheme.lower(), parts.scheme.lower())
    query = f"?{parts.query}" if parts.query else ""
    return f"{scheme}://{parts.netloc}/{parts.path.strip('/')}{query}"


def path_of(spelled: str) -> str:
    """What is left of a place without its scheme and authority."""
    return spelled.partition("://")[2].partition("/")[2] if "://" in spelled else spelled.lstrip("/")


def is_inside(spelled: str, folder: str) -> bool:
    """Whether a place is in a folder, at whatever depth."""
    return spelled.startswith(folder.rstrip("/") + "/")
