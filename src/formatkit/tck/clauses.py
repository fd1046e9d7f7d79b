"""The numbered clauses of the contract, read from the docstrings in which they are promised."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from formatkit import kernel
from formatkit.contract.batch import DataBatch
from formatkit.contract.format import FormatFile, FormatFileWriter
from formatkit.contract.storage import ByteSink, ByteSource

__all__ = ["clauses"]

_PROMISES: tuple[Any, ...] = (DataBatch, FormatFile, FormatFileWriter, ByteSource, ByteSink, kernel)
_CLAUSE = re.compile(r"^([A-Z]\d+) +(.*(?:\n    .*)*)", re.MULTILINE)


@cache
def clauses() -> dict[str, str]:
    """The text of each clause by its number."""
    return dict(found for promise in _PROMISES for found in _clauses_of(promise))


def _clauses_of(promise: Any) -> Iterator[tuple[str, str]]:
    for number, text in _CLAUSE.findall(inspect.getdoc(promise) or ""):
        yield number, " ".join(text.split())
