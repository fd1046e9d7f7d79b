"""What becomes of a reader that promises one type of batches and returns another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from formatkit.contract import BatchStream, ReadOptions, ReadResult
from formatkit.errors import ContractViolationError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import MANY_CHUNKS
from formatkit.tck.naive import File
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.wrapping import WrappedFile, WrappedFormat

_FILE = File(schema=MANY_CHUNKS.schema, rows=MANY_CHUNKS.rows)


@check("P9", "R3", "X84", layer=Layer.SCAN)
def batches_are_of_the_type_that_the_plugin_names(kit: ScanKit[Any]) -> None:
    promised = kit.format.plugin.batch_type
    stored = kit.format.write(_FILE.schema, _FILE.rows)
    with kit.format.opened(stored.data) as file, file.read(ReadOptions(projection=file.schema)).batches as batches:
        for batch in batches:
            expect.that(isinstance(batch, promised), f"a batch is a {type(batch).__name__}, not {promised.__name__}")


@check("P9", "X84", layer=Layer.SCAN)
def a_reader_that_returns_another_type_fails_at_the_first_batch(kit: ScanKit[Any]) -> None:
    broken = replace(kit, format=replace(kit.format, plugin=WrappedFormat(kit.format.plugin, _LyingFile)))
    with (
        broken.built([_FILE.schema], [_FILE]) as table,
        table.scan().to_batches() as batches,
        expect.raises(ContractViolationError, when="reading batches of a type that was not promised"),
    ):
        next(batches)


class _Box:
    """What no plugin ever promised."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch


class _LyingFile(WrappedFile[Any]):
    def read(self, options: ReadOptions) -> ReadResult[Any]:
        result = self.file.read(options)

        def boxes() -> Iterator[_Box]:
            yield from map(_Box, result.batches)

        return ReadResult(batches=BatchStream(boxes(), result.batches.close), residual=result.residual)
