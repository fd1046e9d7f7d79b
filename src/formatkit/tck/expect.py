"""What checks say instead of a bare assert, which shows no values in an installed package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from formatkit.tck.rows import comparable

__all__ = ["CheckFailedError", "equal", "equal_rows", "raises", "that"]


class CheckFailedError(AssertionError):
    """A plugin does not do what a check demands."""


def that(condition: bool, message: str) -> None:
    """Fail with the message unless the condition holds."""
    if not condition:
        raise CheckFailedError(message)


def equal(found: Any, expected: Any, what: str) -> None:
    """Fail unless both are equal; `what` says what they are."""
    that(found == expected, f"{what}: expected {expected!r}, found {found!r}")


def equal_rows(found: Iterable[Any], expected: Iterable[Any], what: str = "rows") -> None:
    """Compare rows in order, NaN equal to NaN and −0.0 not equal to 0.0; says where the first difference is."""
    have, want = comparable(found), comparable(expected)
    for number, (one, other) in enumerate(zip(have, want, strict=False)):
        that(one == other, f"{what}: row {number} is {one}, not {other}")
    if len(have) != len(want):
        longer, word = (have, "too many") if len(have) > len(want) else (want, "missing")
        first = longer[min(len(have), len(want))]
        raise CheckFailedError(f"{what}: expected {len(want)}, found {len(have)}; the first one {word} is {first}")


@contextmanager
def raises(*kinds: type[Exception], when: str, naming: str = "") -> Iterator[None]:
    """The block must fail with one of these errors, whose message has `naming` in it."""
    names = " or ".join(kind.__name__ for kind in kinds)
    try:
        yield
    except kinds as error:
        that(naming in str(error), f"{when}: the error does not name {naming!r}: {error}")
        return
    except Exception as error:
        raise CheckFailedError(f"{when}: expected {names}, found {type(error).__name__}: {error}") from error
    raise CheckFailedError(f"{when}: expected {names}, but nothing was raised")
