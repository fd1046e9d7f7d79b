"""What is asked of a file or a table, and which answers are right.

An answer is the list of rows that a question gives, in a form where equal means equal. Five rules say what a changed
file may answer; a `FormatkitError` is allowed by all but one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal

import formatkit
from formatkit.scan import Scan
from formatkit.tck.rows import comparable, from_arrow
from support.lived_tables import in_splits

__all__ = ["Answers", "Rule", "ask_file", "ask_table", "wrong"]

Answers = dict[str, list[str]]
Rule = Literal["same", "rows", "filters", "hints", "any"]
"""What a change may do.

same: Nothing: the format stores the fact twice, or covers it by a checksum, so every answer is the right one.
rows: As before, but for `count`, which takes the word of headers and footers and reads no rows.
filters: Only statistics changed, which the format gives no means to prove: a filter may lose rows, never gain any.
hints: The same, and no answer is an error: nothing changed that rows depend on.
any: The change made another file that contradicts itself nowhere, or nowhere that the format lets a reader see.
"""


def ask_file(source: Any, file_format: str, filters: tuple[str, ...], column: str) -> Iterator[tuple[str, Any]]:
    """The questions, each as a name and a call."""

    def read(**options: Any) -> Callable[[], list[str]]:
        return lambda: _rows(formatkit.read_file(source, file_format=file_format, **options))

    yield "all", read()
    yield "batches", read(batch_rows=3, threads=1)
    yield "column", read(select=column)
    yield "splits", lambda: _in_splits(formatkit.read_file(source, file_format=file_format))
    yield "count", lambda: [str(formatkit.read_file(source, file_format=file_format).count())]
    for number, where in enumerate(filters):
        yield f"filter {number}", read(where=where)


def ask_table(table: Callable[[], Any]) -> Iterator[tuple[str, Any]]:
    """The same for a table, which each question loads anew."""
    yield "all", lambda: sorted(_rows(formatkit.scan(table())))
    yield "batches", lambda: sorted(_rows(formatkit.scan(table(), batch_rows=3, threads=1)))
    yield "column", lambda: sorted(_rows(formatkit.scan(table(), select="value")))
    yield "count", lambda: [str(formatkit.scan(table()).count())]
    yield "filter 0", lambda: sorted(_rows(formatkit.scan(table(), "id < 20 and part = 'a'")))
    yield "filter 1", lambda: sorted(_rows(formatkit.scan(table(), "value is null")))


def _rows(scan: Scan[Any]) -> list[str]:
    table = scan.to_arrow()
    table.validate()
    return comparable(from_arrow(scan.schema, table))


def _in_splits(scan: Scan[Any]) -> list[str]:
    size = (scan.tasks[0].size_bytes or 0) // 3 + 1
    return [row for task in in_splits(scan, size).tasks for row in _rows(scan.of_tasks([task]))]


def wrong(rule: Rule, question: str, right: list[str], found: list[str]) -> str:
    """What is wrong with an answer; nothing if it is allowed."""
    if rule == "any" or found == right:
        return ""
    if rule in ("filters", "hints") and question.startswith("filter"):
        gained = Counter(found) - Counter(right)
        return f"{question}: {gained.total()} rows that are not in the file" if gained else ""
    if rule == "rows" and question == "count":
        return ""
    if question == "count":
        return f"count: {found[0]} instead of {right[0]}"
    return (
        f"{question}: {len(found)} rows, {(Counter(right) - Counter(found)).total()} of {len(right)} are not the same"
    )
