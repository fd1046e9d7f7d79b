"""What a plugin answers. Frozen and keyword-only, so that fields can be added without breaking anyone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from pyiceberg.expressions import BooleanExpression

from formatkit.errors import UnsupportedError
from formatkit.forks import keep_for_ever, renew_after_fork

__all__ = ["BatchStream", "ReadResult", "WriteResult"]

B = TypeVar("B")


class BatchStream(Iterator[B]):
    """An iterator of batches that is also a context manager; leaving it releases what the iteration holds.

    Closing a generator runs its `finally` blocks, which is where readers release their handles. `on_close` is for
    what must be released even if the iteration never started.

    A stream that was begun belongs to its process. In the child of a fork it gives no batches and closes nothing.
    """

    def __init__(self, batches: Iterator[B], on_close: Callable[[], None] | None = None) -> None:
        self._batches = batches
        self._on_close = on_close
        self._begun = False
        renew_after_fork(self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> B:
        self._begun = True
        try:
            return next(self._batches)
        except BaseException:
            # The end of the data and a failure alike leave nothing open, whether or not the caller closes.
            self.close()
            raise

    def close(self) -> None:
        """Release everything; may be called twice."""
        close = getattr(self._batches, "close", None)
        try:
            if close is not None:
                close()
        finally:
            on_close, self._on_close = self._on_close, None
            if on_close is not None:
                on_close()

    def after_fork(self) -> None:
        """Leave to the parent what its threads fill and hold."""
        if self._begun:
            keep_for_ever(self._batches)
            self._batches, self._on_close = _OfTheParent(), None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _OfTheParent(Iterator[Any]):
    """What is left of a stream in a child: an error that says so."""

    def __next__(self) -> Any:
        raise UnsupportedError(
            "these batches are read by the process from which this one was forked; begin a stream of your own here"
        )


@dataclass(frozen=True, kw_only=True)
class ReadResult(Generic[B]):
    """What a reader did, and what is left for the kernel.

    Attributes:
        batches: The rows, in file order.
        residual: What is left of the predicate: `AlwaysTrue` when every returned row is known to match, the whole
            predicate when at most chunks were skipped (clause R4).
        schema_evolved: Whether the batches are in `ReadOptions.target` instead of in the projection. The kernel then
            applies its own predicate unless the residual is `AlwaysTrue`.
        counters: Facts for `explain` and accounting, such as ``{"row_groups": 12, "row_groups_read": 1}``. May grow
            while the batches are consumed.
    """

    batches: BatchStream[B]
    residual: BooleanExpression
    schema_evolved: bool = False
    counters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WriteResult:
    """One finished file, as far as the format knows it. Metrics of the values are the kernel's work.

    Attributes:
        location: Where the file is.
        size_bytes: The exact length of the stored file.
        row_count: How many rows were written.
        column_sizes: Bytes on disk by leaf field id, or None if the format stores rows.
        split_offsets: Ascending offsets at which the file can be split, or None.
        key_metadata: What a reader needs to find the key again, if the file is encrypted.
    """

    location: str
    size_bytes: int
    row_count: int
    column_sizes: Mapping[int, int] | None = None
    split_offsets: tuple[int, ...] | None = None
    key_metadata: bytes | None = None
