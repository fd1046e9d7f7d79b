"""Work that depends on the physical types of a batch, done once for all batches that have the same ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import polars as pl

__all__ = ["PerLayout"]

T = TypeVar("T")


class PerLayout(Generic[T]):
    """What `compile_for` makes of the schema of a batch. The batches of a file have one schema, so the last is kept."""

    def __init__(self, compile_for: Callable[[pl.Schema], T]) -> None:
        self._compile_for = compile_for
        self._last: tuple[pl.Schema, T] | None = None

    def of(self, batch: pl.DataFrame) -> T:
        last, schema = self._last, batch.schema
        if last is None or last[0] != schema or list(last[0]) != list(schema):
            # Several threads may share a step: what they exchange is one reference.
            self._last = last = (schema, self._compile_for(schema))
        return last[1]
