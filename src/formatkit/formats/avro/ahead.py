"""Work on the next items while the current one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

__all__ = ["ahead"]

T = TypeVar("T")
R = TypeVar("R")


def ahead(work: Callable[[T], R], items: Iterator[T], count: int) -> Generator[tuple[T, R], None, None]:
    """Each item with what `work` makes of it, in order; `count` further items are worked on in threads meanwhile.

    No thread is left behind, whether the iteration ends, fails or is closed.
    """
    pool = ThreadPoolExecutor(count, thread_name_prefix="formatkit-avro")
    pending: deque[tuple[T, Future[R]]] = deque()
    try:
        while True:
            for item in islice(items, count + 1 - len(pending)):
                pending.append((item, pool.submit(work, item)))
            if not pending:
                return
            item, future = pending.popleft()
            yield item, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
