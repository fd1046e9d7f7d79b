"""Vortex for Arrow batches, as the entry point names it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

from formatkit.contract.capability import Capability

if TYPE_CHECKING:
    from formatkit.formats.vortex.reader import VortexReader
    from formatkit.formats.vortex.writer import VortexWriter

__all__ = ["VortexFormat"]


class VortexFormat:
    """Vortex files, decoded and encoded by `vortex-data`, which is imported when the first file is opened."""

    file_format = "vortex"
    batch_type = pa.RecordBatch
    capabilities = frozenset(
        {
            Capability.SKIP_CHUNKS,
            Capability.FILTER_ROWS,
            Capability.SPLIT,
            Capability.FIELD_IDS,
            Capability.FILE_METADATA,
            Capability.NANOSECONDS,
            Capability.VARIANT,
        }
    )
    extensions: tuple[str, ...] = (".vortex", ".vtx")
    magic = b"VTXF"

    def __init__(self) -> None:
        if find_spec("vortex") is None:
            raise ModuleNotFoundError("No module named 'vortex'", name="vortex")

    def reader(self) -> VortexReader:
        from formatkit.formats.vortex.reader import VortexReader

        return VortexReader()

    def writer(self) -> VortexWriter:
        from formatkit.formats.vortex.writer import VortexWriter

        return VortexWriter()
