"""Code that a table names and that must not run: a module that leaves a file behind when it is imported."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Canary", "canary_in", "metadata_with"]

_SOURCE = """
import pathlib
pathlib.Path({trace!r}).touch()
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.locations import SimpleLocationProvider
class Storage(PyArrowFileIO): pass
class Provider(SimpleLocationProvider): pass
class Anything:
    def __init__(self, *given, **named): pass
"""


class Canary:
    """Names of classes, and whether their module was imported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.module = f"canary_{abs(hash(folder))}"
        self.trace = folder / "it ran"
        (folder / f"{self.module}.py").write_text(_SOURCE.format(trace=str(self.trace)))
        self.storage, self.provider = f"{self.module}.Storage", f"{self.module}.Provider"
        self.anything = f"{self.module}.Anything"

    @property
    def ran(self) -> bool:
        return self.trace.exists() or self.module in sys.modules


@contextmanager
def canary_in(folder: Path) -> Iterator[Canary]:
    """A module that can be imported."""
    folder.mkdir()
    sys.path.insert(0, str(folder))
    canary = Canary(folder)
    try:
        yield canary
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(canary.module, None)


def metadata_with(location: str, properties: Mapping[str, Any], name: str = "evil") -> str:
    """A copy of a metadata file beside it, with these properties."""
    path = Path(location.removeprefix("file://"))
    document = json.loads(path.read_text()) | {"properties": dict(properties)}
    copy = path.with_name(f"{name}.metadata.json")
    copy.write_text(json.dumps(document))
    return str(copy)
