"""What Lance says about unusable bytes, as errors that name the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from formatkit.errors import CorruptFileError, FormatkitError, is_of_the_machine, machine_errors

__all__ = ["corrupt", "reading", "reason"]

_PLACE = re.compile(r", \S+\.rs:\d+:\d+")


def corrupt(location: str, what: str) -> CorruptFileError:
    """The error for a file that contradicts itself."""
    return CorruptFileError(f"{location}: is a corrupt Lance file: {what}", location=location)


@contextmanager
def reading(location: str) -> Iterator[None]:
    """Turn Lance's errors inside the block into errors of this package.

    They come as several builtins, as Arrow's errors, and, where Lance panics, as an exception that is no `Exception`.
    """
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
