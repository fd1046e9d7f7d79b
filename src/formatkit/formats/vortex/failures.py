"""What Vortex says about unusable bytes, as errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from formatkit.errors import CorruptFileError, FormatkitError, is_of_the_machine, machine_errors
from formatkit.formats.vortex.source_reads import SourceReads

__all__ = ["corrupt", "is_overflow", "reading"]


def corrupt(location: str, what: str) -> CorruptFileError:
    """The error for a file that contradicts itself."""
    return CorruptFileError(f"{location}: is a corrupt Vortex file: {what}", location=location)


@contextmanager
def reading(reads: SourceReads) -> Iterator[None]:
    """Turn Vortex's errors inside the block into errors of this package.

    They come as `RuntimeError`, as Arrow's errors, and, where Vortex panics, as an exception that is no `Exception`.
    """
    try:
        with machine_errors(reads.location):
            yield
    except (FormatkitError, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # Vortex reports a failure of the storage as text; the failure itself is better.
        if reads.failure is not None:
            raise reads.failure from error
        if is_of_the_machine(error):
            raise
        raise corrupt(reads.location, reason(error)) from error


def is_overflow(error: BaseException) -> bool:
    """Whether Vortex says that texts are too long for one array of Arrow."""
    return "does not fit in i32" in reason(error)


def reason(error: BaseException) -> str:
    """What an error of Vortex says, without the trace of its own functions."""
    text = str(error).partition("\nBacktrace:")[0].strip()
    return text or type(error).__name__
