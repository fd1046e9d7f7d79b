"""Files as tables write them: with the metrics of their values, and from Arrow data that has to be fitted first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import ByteSink, FormatFileWriter, FormatPlugin, WriteOptions, WriteResult
from formatkit.io import MemorySink
from formatkit.registry import FormatRegistry
from formatkit.tck.kits import Bridge, FormatKit, Stored
from formatkit.tck.naive import Row
from formatkit.write import write_file
from formatkit.write.data_file import data_file
from formatkit.write.metrics import metrics_modes

__all__ = ["arrow_registry", "bounds", "manifest_entry", "write_arrow"]

B = TypeVar("B")


def manifest_entry(
    kit: FormatKit[Any], schema: Schema, rows: Sequence[Row], properties: Mapping[str, str] | None = None
) -> DataFile:
    """Write the rows, in chunks as small as the format makes them, and describe the file as a manifest does."""
    given = {**kit.small_chunks, **(properties or {})}
    modes = metrics_modes(schema, given)
    collector = kit.batches.operations.collector(schema, modes)
    with kit.plugin.writer().open(MemorySink(), WriteOptions(schema=schema, properties=given)) as writer:
        for start in range(0, len(rows), 3):
            batch = kit.batches.batch(schema, rows[start : start + 3])
            collector.update(batch)
            writer.write(batch)
        result = writer.close()
    if result is None:
        raise AssertionError(f"{len(rows)} rows were written, but there is no file")
    return data_file(result, collector.finish(), modes, schema, file_format=kit.plugin.file_format)


def bounds(entry: DataFile, schema: Schema, field_id: int) -> tuple[Any, Any]:
    """The lower and upper bound of a leaf, decoded; None where there is none."""
    kind = schema.find_type(field_id)
    if not isinstance(kind, PrimitiveType):
        raise TypeError(f"field {field_id} is no leaf")
    stored = [(found or {}).get(field_id) for found in (entry.lower_bounds, entry.upper_bounds)]
    lower, upper = (None if one is None else from_bytes(kind, one) for one in stored)
    return lower, upper


def write_arrow(kit: FormatKit[Any], sink: MemorySink, data: Any, schema: Schema) -> Stored:
    """Write Arrow data as `formatkit.write_file` does, whatever the batch type is; the rows are not known here."""
    written = write_file(sink, data, schema, kit.plugin.file_format, registry=arrow_registry(kit))
    if written is None or sink.data is None:
        raise AssertionError("rows were written, but there is no file")
    return Stored(sink.data, written.result, schema, ())


def arrow_registry(kit: FormatKit[Any]) -> FormatRegistry:
    """A registry that knows nothing but the format, and writes it from Arrow data whatever the batch type is."""
    registry = FormatRegistry()
    if kit.plugin.batch_type is pa.RecordBatch:
        registry.register(kit.plugin)
        registry.register_batch(kit.batches.operations)
    else:
        registry.register(_WrittenFromArrow(kit.plugin, kit.batches.bridge))
        registry.register_batch(ArrowBatch())
    return registry


class _WrittenFromArrow(Generic[B]):
    """A plugin whose writer takes Arrow batches and hands them on in the plugin's own type."""

    batch_type = pa.RecordBatch

    def __init__(self, plugin: FormatPlugin[B], bridge: Bridge[B]) -> None:
        self._plugin = plugin
        self._bridge = bridge
        self.file_format = plugin.file_format
        self.capabilities = plugin.capabilities
        self.extensions = plugin.extensions
        self.magic = plugin.magic

    def reader(self) -> Any:
        raise NotImplementedError

    def writer(self) -> Self:
        return self

    def open(self, sink: ByteSink, options: WriteOptions) -> _FileFromArrow[B]:
        return _FileFromArrow(self._plugin.writer().open(sink, options), self._bridge)


@dataclass(frozen=True)
class _FileFromArrow(Generic[B]):
    writer: FormatFileWriter[B]
    bridge: Bridge[B]

    def write(self, batch: pa.RecordBatch) -> None:
        self.writer.write(self.bridge.from_arrow(batch))

    def bytes_written(self) -> int:
        return self.writer.bytes_written()

    def close(self) -> WriteResult | None:
        return self.writer.close()

    def abort(self) -> None:
        self.writer.abort()

    def __enter__(self) -> Self:
        self.writer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.__exit__(kind, error, trace)
