"""Lance for Arrow batches, as the entry point names it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

from formatkit.contract.capability import Capability

if TYPE_CHECKING:
    from formatkit.formats.lance.reader import LanceReader
    from formatkit.formats.lance.writer import LanceWriter

__all__ = ["LanceFormat"]


class LanceFormat:
    """Lance files, decoded and encoded by `pylance`, which is imported when the first file is opened."""

    file_format = "lance"
    batch_type = pa.RecordBatch
    capabilities = frozenset(
        {
            Capability.SPLIT,
            Capability.FIELD_IDS,
            Capability.FILE_METADATA,
            Capability.NANOSECONDS,
            Capability.VARIANT,
        }
    )
    extensions: tuple[str, ...] = (".lance",)
    magic = b""

    def __init__(self) -> None:
        if find_spec("lance") is None:
            raise ModuleNotFoundError("No module named 'lance'", name="lance")

    def reader(self) -> LanceReader:
        from formatkit.formats.lance.reader import LanceReader

        return LanceReader()

    def writer(self) -> LanceWriter:
        from formatkit.formats.lance.writer import LanceWriter

        return LanceWriter()
