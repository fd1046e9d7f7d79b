"""A `FileIO` that opens nothing unless its properties hold the password."""

from __future__ import annotations

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

__all__ = ["PASSWORD", "GuardedIO"]

PASSWORD = "guarded.password"


class GuardedIO(PyArrowFileIO):
    """Reads through Arrow, for those who know the password."""

    def new_input(self, location: str) -> PyArrowFile:
        if self.properties.get(PASSWORD) != "sesame":
            raise PermissionError(f"{location}: the properties lack the password")
        return super().new_input(location)
