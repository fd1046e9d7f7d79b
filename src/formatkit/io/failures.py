"""Turns what storage libraries raise into errors of this package that name the location."""

from __future__ import annotations

import errno
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import nan
from typing import Any

from formatkit.contract.storage import ByteRange
from formatkit.errors import (
    ConfigurationError,
    CorruptFileError,
    FileAlreadyExistsError,
    FileMissingError,
    FormatkitError,
    StorageError,
    without_secrets,
)

__all__ = [
    "TIMEOUT_PROPERTY",
    "closed_source",
    "no_answer",
    "not_answered",
    "out_of_range",
    "storage_failures",
    "timeout_of",
    "under_way",
]

TIMEOUT_PROPERTY = "formatkit.io.timeout-seconds"
"""Of a `FileIO`: how long its storage may be silent."""

_RETRYABLE = frozenset({errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EIO, errno.ESTALE, errno.ETIMEDOUT})
# Clients of object stores raise errors that have no number: Arrow's say in words what happened, others in their class.
_PASSING_WORDS = re.compile(
    r"AWS Error (INTERNAL_FAILURE|NETWORK_CONNECTION|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING)"
    r"|HTTP status (429|500|502|503|504)"
    r"|Status\((UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED)"
)
# By thread, so that an error can say what hangs there.
_NOTHING: tuple[str, str, ByteRange | None] = ("the storage", "reach", None)
_under_way: dict[int, tuple[str, str, ByteRange | None]] = {}
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
        with under_way(location, doing, wanted):
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


@contextmanager
def under_way(location: str, doing: str, wanted: ByteRange | None = None) -> Iterator[None]:
    """Note what this thread does, so that others can say what it hangs in."""
    thread = threading.get_ident()
    outer = _under_way.get(thread, _NOTHING)
    _under_way[thread] = (location, doing, wanted)
    try:
        yield
    finally:
        _under_way[thread] = outer


def no_answer(thread: int | None, seconds: float) -> StorageError:
    """The error for a call that hangs on a thread."""
    location, doing, wanted = _under_way.get(thread or 0, _NOTHING)
    return not_answered(location, doing, wanted, seconds)


def not_answered(location: str, doing: str, wanted: ByteRange | None, seconds: float) -> StorageError:
    """The error for storage that says nothing for too long."""
    what = location if wanted is None else f"{wanted.length} bytes from offset {wanted.offset} of {location}"
    message = (
        f"cannot {doing} {what}: the storage has not answered for {seconds:g} seconds; try again, or let it take "
        f"longer with the property {TIMEOUT_PROPERTY} of the FileIO or with IoRuntime(timeout_seconds=…)"
    )
    return StorageError(message, location=location, range=wanted, retryable=True, timed_out=True)


def timeout_of(properties: Mapping[str, Any]) -> float | None:
    """What the properties of a `FileIO` say about silence of the storage; None if they do not."""
    value = properties.get(TIMEOUT_PROPERTY)
    if value is None:
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = nan
    if not seconds > 0:
        raise ConfigurationError(f"{TIMEOUT_PROPERTY} is a number of seconds above 0, not {value!r}")
    return seconds


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
