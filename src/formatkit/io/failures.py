"""Turns what storage libraries raise into errors of this package that name the location."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from formatkit.contract.storage import ByteRange
from formatkit.errors import (
    CorruptFileError,
    FileAlreadyExistsError,
    FileMissingError,
    FormatkitError,
    StorageError,
    without_secrets,
)

__all__ = ["closed_source", "out_of_range", "storage_failures"]

_RETRYABLE = frozenset({errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EIO, errno.ESTALE, errno.ETIMEDOUT})
# Clients of object stores raise errors that have no number: Arrow's say in words what happened, others in their class.
_PASSING_WORDS = re.compile(
    r"AWS Error (INTERNAL_FAILURE|NETWORK_CONNECTION|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING)"
    r"|HTTP status (429|500|502|503|504)"
    r"|Status\((UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED)"
)
_PASSING_CLASSES = frozenset({"ClientConnectionError", "ClientPayloadError"})


@contextmanager
def storage_failures(location: str, doing: str, wanted: ByteRange | None = None) -> Iterator[None]:
    """Run storage calls; whatever they raise becomes a `StorageError`, since backends agree on no exceptions.

    Args:
        location: Of the file.
        doing: The verb.
        wanted: What is read, which becomes the error's `range`.
    """
    try:
        yield
    except (FormatkitError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except FileNotFoundError as error:
        message = f"cannot {doing} {location}: there is no such file"
        raise FileMissingError(message, location=location, range=wanted) from _shown(error)
    except FileExistsError as error:
        message = f"cannot {doing} {location}: a file is already there; delete it, or pass overwrite=True"
        raise FileAlreadyExistsError(message, location=location) from _shown(error)
    except BaseException as error:  # noqa: BLE001
        # Not only `Exception`: what asynchronous clients raise when they are cancelled is none.
        what = location if wanted is None else f"{wanted.length} bytes from offset {wanted.offset} of {location}"
        message = f"cannot {doing} {what}: {_reason(error)}"
        retryable = _is_retryable(error)
        raise StorageError(message, location=location, range=wanted, retryable=retryable) from _shown(error)


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and isinstance(error.strerror, str) and error.strerror:
        return error.strerror.lower()
    return _text(error) or type(error).__name__


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever a storage library does there
        return ""


def _shown(error: BaseException) -> BaseException | None:
    """The cause of an error that says it again; none if a traceback would show a password or a signature with it."""
    text = _text(error)
    return error if without_secrets(text) == text else None


def _is_retryable(error: BaseException) -> bool:
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _RETRYABLE
    names = {each.__name__ for each in type(error).__mro__}
    return not _PASSING_CLASSES.isdisjoint(names) or (
        isinstance(error, OSError) and bool(_PASSING_WORDS.search(_text(error)))
    )


def out_of_range(location: str, offset: int, length: int, size: int) -> CorruptFileError:
    """The error for a range that is not inside the file."""
    needed = f"{length} bytes from offset {offset} are needed, the file has {size} bytes"
    return CorruptFileError(f"{location} is damaged or truncated: {needed}", location=location)


def closed_source(location: str) -> StorageError:
    """The error for a source that is used after it was closed."""
    return StorageError(f"cannot read {location}: the source was closed", location=location)
