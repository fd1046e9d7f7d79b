"""Local files as some stranger's `FileIO` gives them: Python streams with one cursor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyiceberg.io import InputFile

__all__ = ["LocalFile"]


class LocalFile(InputFile):
    """A file that formatkit does not know to be local."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"plain://{path}")
        self._path = path

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        return self._path.exists()

    def open(self, seekable: bool = True) -> Any:
        return self._path.open("rb")
