"""Turns what storage libraries raise into errors of this package that name the location."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from formatkit.errors import CorruptFileError, FileAlreadyExistsError, FileMissingError, FormatkitError, StorageError

__all__ = ["closed_source", "out_of_range", "storage_failures"]

_RETRYABLE = frozenset({errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EIO, errno.ESTALE, errno.ETIMEDOUT})


@contextmanager
def storage_failures(location: str, doing: str) -> Iterator[None]:
    """Run storage calls; whatever they raise becomes a `StorageError`, since backends agree on no exceptions."""
    try:
        yield
    except FormatkitError:
        raise
    except FileNotFoundError as error:
        raise FileMissingError(f"cannot {doing} {location}: there is no such file", location=location) from error
    except FileExistsError as error:
        message = f"cannot {doing} {location}: a file is already there; delete it, or pass overwrite=True"
        raise FileAlreadyExistsError(message, location=location) from error
    except Exception as error:
        message = f"cannot {doing} {location}: {_reason(error)}"
        raise StorageError(message, location=location, retryable=_is_retryable(error)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"{error}" or type(error).__name__


def _is_retryable(error: Exception) -> bool:
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    return isinstance(error, OSError) and error.errno in _RETRYABLE


def out_of_range(location: str, offset: int, length: int, size: int) -> CorruptFileError:
    """The error for a range that is not inside the file."""
    needed = f"{length} bytes from offset {offset} are needed, the file has {size} bytes"
    return CorruptFileError(f"{location} is damaged or truncated: {needed}", location=location)


def closed_source(location: str) -> StorageError:
    """The error for a source that is used after it was closed."""
    return StorageError(f"cannot read {location}: the source was closed", location=location)
