"""Lies about ORC files that can be told from the file itself: the statistics of stripes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from typing import Any

from hints.edits import Lie, become, put, remove

from support.mutations.orc_file import OrcFile
from support.mutations.tree import Node

__all__ = ["section_lies", "statistics_lies", "writer_lies"]

_HUGE = 1 << 40
_BOUNDED = {
    "intStatistics": ("1", "2"),
    "doubleStatistics": ("1", "2"),
    "stringStatistics": ("1", "2"),
    "decimalStatistics": ("1", "2"),
    "dateStatistics": ("1", "2"),
    "timestampStatistics": ("3", "4"),
}
_NAN = struct.pack("<d", float("nan"))
_WRONG: dict[str, list[tuple[str, Any, Any]]] = {
    "doubleStatistics": [("NaN", "raw", _NAN), ("cut", "bytes", b"\1\2\3"), ("a number", "int", 3)],
    "stringStatistics": [("no UTF-8", "bytes", b"m\xffm"), ("a number", "int", 3)],
    "decimalStatistics": [("no number", "bytes", b"abc"), ("NaN", "bytes", b"NaN"), ("huge", "bytes", b"1E400")],
    "dateStatistics": [("huge", "int", _HUGE)],
    "timestampStatistics": [("huge", "int", (1 << 64) - 2)],
    "intStatistics": [("bytes", "bytes", b"12345")],
}


def statistics_lies(stats: Node, rows: int, *, nested: bool) -> Iterator[Lie]:
    """Lies about one column of a stripe."""
    values, has_null = stats["numberOfValues"], stats.get("hasNull")
    kind, inner = next(((key, node) for key in _BOUNDED if (node := stats.get(key)) is not None), ("", None))
    bounds = [node for key in _BOUNDED.get(kind, ()) if inner is not None and (node := inner.get(key)) is not None]
    count = partial(become, values, "int")
    yield "nothing", partial(become, stats, "struct", [])
    yield "noise", partial(become, stats, "bytes", b"\xff\x07\x99")
    yield "no numberOfValues", partial(remove, stats, "numberOfValues")
    for number in (rows + 1, _HUGE, (1 << 64) - 1):
        yield f"numberOfValues {number}", partial(count, number)
    yield "numberOfValues of another type", partial(become, values, "bytes", b"7")
    yield "no values and no nulls", partial(_empty, stats)
    if bounds:
        yield "no values beside bounds", partial(count, 0)
    if has_null is not None and not nested:
        yield "hasNull is wrong", partial(become, has_null, "int", int(values.value == rows))
    if values.value != rows and not nested:
        yield "as many values as rows", partial(count, rows)
    if inner is None:
        return
    yield "no bounds", partial(remove, stats, kind)
    yield "bounds are noise", partial(become, inner, "bytes", b"\xff\x07\x99")
    if len(bounds) == 2:
        low, high = bounds
        if low.value != high.value:
            yield "min above max", partial(_exchange, low, high)
            if kind == "intStatistics" and inner.get("3") is not None:
                yield "bounds against the sum", partial(become, low, "int", high.value)
        for what, node_kind, value in _WRONG[kind]:
            yield f"min is {what}", partial(become, low, node_kind, value)
            yield f"max is {what}", partial(become, high, node_kind, value)


def _empty(stats: Node) -> None:
    """As a writer left it that kept no index."""
    put(stats, "numberOfValues", 1, "int", 0)
    for key in _BOUNDED:
        remove(stats, key)
    remove(stats, "bucketStatistics")
    put(stats, "hasNull", 10, "int", 0)


def _exchange(one: Node, other: Node) -> None:
    one.value, other.value = other.value, one.value


def section_lies(parts: OrcFile, stripe: Node) -> Iterator[Lie]:
    """Lies about which statistics there are."""
    stripes, columns = parts.metadata.value, stripe.value
    yield "no statistics", partial(become, parts.metadata, "struct", [])
    yield "noise", partial(become, parts.metadata, "bytes", b"\xff\x07\x99")
    yield "a stripe too few", partial(become, parts.metadata, "struct", stripes[1:])
    yield "a stripe too many", partial(become, parts.metadata, "struct", [stripes[-1].copy(), *stripes])
    yield "a column too few", partial(become, stripe, "struct", columns[1:])
    yield "a column too many", partial(become, stripe, "struct", [columns[-1].copy(), *columns])
    yield "a stripe of noise", partial(become, stripe, "bytes", b"\xff\x07\x99")


def writer_lies(parts: OrcFile, stats: Node) -> Iterator[Lie]:
    """Bounds of writers that are known for wrong ones."""
    for key in ("intStatistics", "stringStatistics", "decimalStatistics"):
        inner = stats.get(key)
        if inner is not None and inner.get("2") is not None:
            yield f"old {key}", partial(_old, parts, inner)


def _old(parts: OrcFile, inner: Node) -> None:
    inner["2"].value = inner["1"].value
    remove(inner, "3")
    put(parts.postscript, "writerVersion", 6, "int", 0)
