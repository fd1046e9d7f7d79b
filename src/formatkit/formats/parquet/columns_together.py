"""Decodes several columns at a time: with one call of compiled code, on one or several threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np

from formatkit.batches.compiled.loading import kernels
from formatkit.batches.decoders import run_together
from formatkit.formats.parquet.column_decoder import Step
from formatkit.formats.parquet.kernels.numbers import OUTCOME, STEP_NUMBERS
from formatkit.formats.parquet.page_content import KERNELS, address

__all__ = ["BegunColumn", "decode_together"]


class BegunColumn(Protocol):
    """A column of which some rows are to be decoded."""

    @property
    def weight(self) -> int:
        """About how long that takes, compared with others."""
        ...

    def use_tools_of_thread(self) -> None: ...

    def go_on(self, outcome: int) -> None:
        """Do alone what is left to do; raises nothing."""
        ...


def decode_together(columns: Sequence[tuple[BegunColumn, Step]], threads: int) -> None:
    """Decode what was begun of columns, on up to so many threads."""
    run_together([partial(_decode, part) for part in _parts(columns, threads)], threads)


def _decode(columns: Sequence[tuple[BegunColumn, Step]]) -> None:
    steps = np.zeros((len(columns), STEP_NUMBERS), np.int64)
    for number, (column, step) in enumerate(columns):
        column.use_tools_of_thread()
        steps[number, :OUTCOME] = step
    decode, start, done = kernels(KERNELS).decode_columns, address(steps), 0
    while done < len(columns):
        done += decode(start + steps.strides[0] * done, len(columns) - done)
        if done < len(columns):
            columns[done][0].go_on(int(steps[done, OUTCOME]))
            done += 1


def _parts(columns: Sequence[tuple[BegunColumn, Step]], threads: int) -> list[list[tuple[BegunColumn, Step]]]:
    """The columns in parts of about the same weight, one for each thread."""
    count = min(threads, len(columns))
    if count <= 1:
        return [list(columns)] if columns else []
    parts: list[list[tuple[BegunColumn, Step]]] = [[] for _ in range(count)]
    weights = [0] * count
    for one in sorted(columns, key=lambda one: one[0].weight, reverse=True):
        lightest = weights.index(min(weights))
        parts[lightest].append(one)
        weights[lightest] += one[0].weight
    return parts
