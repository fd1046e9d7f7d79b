"""Fields of a `DataFile` for which pyiceberg's class has no names."""

from __future__ import annotations

from typing import Any

from pyiceberg.manifest import DATA_FILE_TYPE, DataFile

__all__ = ["field_of", "fields_of"]

_NAMES = [field.name for field in DATA_FILE_TYPE[3].fields]


def field_of(file: DataFile, name: str) -> Any:
    return file[_NAMES.index(name)]


def fields_of(file: DataFile) -> dict[str, Any]:
    """The fields that are not None."""
    return {name: file[i] for i, name in enumerate(_NAMES) if file[i] is not None}
