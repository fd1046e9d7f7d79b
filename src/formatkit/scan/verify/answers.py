"""Compares counts and extremes that metadata tells with the rows of each file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from formatkit.errors import MisleadingStatisticsError
from formatkit.scan.tasks import FileTask
from formatkit.scan.verify import VERIFY_SKIPPING

if TYPE_CHECKING:
    import pyarrow as pa

    from formatkit.scan.aggregates import Aggregates

__all__ = ["check_known", "counted"]

T = TypeVar("T")


def counted(
    tasks: Iterable[FileTask],
    known: Callable[[Sequence[FileTask]], int | None],
    read: Callable[[Sequence[FileTask]], int],
    limit: int | None,
) -> int:
    """The rows of all files by reading them, each compared with what metadata tells.

    Args:
        tasks: The work.
        known: What metadata tells of the tasks of one file; None if it does not.
        read: Counts the rows of the tasks of one file.
        limit: The most rows; no more files are read once they are counted.
    """
    rows = 0
    for location, parts in _by_file(tasks):
        if limit is not None and rows >= limit:
            break
        said, found = known(parts), read(parts)
        if said is not None and said != found:
            raise _contradiction(location, "count", said, found)
        rows += found
    return rows if limit is None else min(rows, limit)


def check_known(location: str, asked: Aggregates, said: pa.RecordBatch, found: pa.RecordBatch) -> None:
    """Raise `MisleadingStatisticsError` if the rows of a file come to something else than its metadata tells."""
    for aggregate, one, other in zip(asked, asked.together([said]).columns, found.columns, strict=True):
        if not one.equals(other):
            raise _contradiction(location, aggregate.text, one[0], other[0])


def _by_file(tasks: Iterable[FileTask]) -> Iterator[tuple[str, list[FileTask]]]:
    files: dict[str, list[FileTask]] = {}
    for task in tasks:
        files.setdefault(task.location, []).append(task)
    yield from files.items()


def _contradiction(location: str, what: str, said: Any, found: Any) -> MisleadingStatisticsError:
    message = (
        f"{location}: {what} is {said} by metadata, and {found} by the rows. `formatkit validate` shows what is wrong; "
        f"rewrite the file, or set {VERIFY_SKIPPING} to false"
    )
    return MisleadingStatisticsError(message, location=location)
