"""Calls that are made again when they fail for reasons that pass."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from formatkit.errors import ConfigurationError, StorageError

__all__ = ["RetryPolicy"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often and how soon a call is repeated whose `StorageError` is `retryable`.

    Attributes:
        attempts: All attempts, the first included.
        first_delay: Seconds before the second attempt; each further one waits twice as long.
        longest_delay: What no wait exceeds.
    """

    attempts: int = 4
    first_delay: float = 0.1
    longest_delay: float = 5.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first_delay < 0 or self.longest_delay < 0:
            raise ConfigurationError(
                f"a call is made once or more often and waits 0 seconds or longer, not as in {self}"
            )

    def delays(self) -> Iterator[float]:
        """The waits between attempts. Half of each is chance, so that callers that failed together part."""
        for number in range(self.attempts - 1):
            delay = min(self.first_delay * 2**number, self.longest_delay)
            yield delay * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing

    def run(self, call: Callable[[], T], pause: Callable[[float], None], count: Callable[[], None]) -> T:
        """The result of `call`.

        Args:
            call: What to do.
            pause: Waits for a number of seconds; may raise if there is no point in going on.
            count: Is told of each repetition.
        """
        for delay in self.delays():
            try:
                return call()
            except StorageError as error:
                if not error.retryable:
                    raise
            count()
            pause(delay)
        return call()
