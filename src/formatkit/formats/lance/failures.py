"""What Lance says about unusable bytes, and where it cannot be used at all, as errors that name the file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from formatkit.errors import CorruptFileError, FormatkitError, UnsupportedError, is_of_the_machine, machine_errors

__all__ = ["corrupt", "reading", "reason", "require_own_threads"]

_PLACE = re.compile(r", \S+\.rs:\d+:\d+")


_user: int | None = None
"""The process that used Lance first, of this one and those that it is a fork of."""


def require_own_threads(location: str) -> None:
    """Raise `UnsupportedError` in a child of a process that has used Lance.

    The child has none of the threads that Lance waits for, and what they worked on. Some children hang, some end by a
    signal, and most of them work. Importing Lance starts no thread.
    """
    global _user  # noqa: PLW0603 - one for all of Lance, which has its threads once in a process
    if _user is None:
        _user = os.getpid()
    elif _user != os.getpid():
        raise UnsupportedError(
            f"{location}: Lance cannot be used in this process: process {_user} used Lance before it was forked, and "
            "Lance's threads do not survive that. Start processes by spawn or forkserver "
            "(multiprocessing.get_context), or use Lance in the children only",
            location=location,
        )


def corrupt(location: str, what: str) -> CorruptFileError:
    """The error for a file that contradicts itself."""
    return CorruptFileError(f"{location}: is a corrupt Lance file: {what}", location=location)


@contextmanager
def reading(location: str) -> Iterator[None]:
    """Turn Lance's errors inside the block into errors of this package.

    They come as several builtins, as Arrow's errors, and, where Lance panics, as an exception that is no `Exception`.
    """
    require_own_threads(location)
    try:
        with machine_errors(location):
            yield
    except (FormatkitError, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if is_of_the_machine(error):
            raise
        raise corrupt(location, reason(error)) from error


def reason(error: BaseException) -> str:
    """What an error of Lance says, without the places in its source."""
    return _PLACE.sub("", str(error)) or type(error).__name__
