"""Every error that formatkit raises, grouped by whose turn it is to act.

Each class also inherits the builtin that a caller would catch anyway. Facts about the failure are attributes; the
message says what was asked, what was found and what to do. All of them survive pickling, because they cross process
borders in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

__all__ = [
    "AmbiguousColumnError",
    "ColumnNotFoundError",
    "CommitConflictError",
    "CommitStateUnknownError",
    "ConfigurationError",
    "ContractViolationError",
    "CorruptFileError",
    "DuplicateFormatError",
    "FileAlreadyExistsError",
    "FileMissingError",
    "FormatNotRegisteredError",
    "FormatkitError",
    "IllegalPromotionError",
    "InternalError",
    "InvalidDataError",
    "InvalidPredicateError",
    "InvalidTableError",
    "IoUringUnavailableError",
    "MissingFieldIdsError",
    "MissingRequiredFieldError",
    "NotModifiedError",
    "OutOfMemoryError",
    "PluginLoadError",
    "PreconditionFailedError",
    "SchemaResolutionError",
    "StorageError",
    "UnsupportedError",
    "without_secrets",
]

# In the order in which they are hidden: user information of URLs, their queries, and properties.
_SECRETS = (
    (re.compile(r"\b(https?://)[^\s/?#@\"'<>]+@", re.IGNORECASE), r"\1***@"),
    (re.compile(r"\b([a-z][a-z0-9+.-]*://)[^\s/?#@\"'<>]*:[^\s?#@\"'<>]*@", re.IGNORECASE), r"\1***@"),
    (re.compile(r"\b([a-z][a-z0-9+.-]*://[^\s?#\"'<>]*[?#])[^\s\"'<>]*=[^\s\"'<>]*", re.IGNORECASE), r"\1***"),
    (
        # Paths without a scheme, as clients of HTTP quote them: only what is known to be a signature or a token.
        re.compile(
            r"([?&;](?:X-(?:Amz|Goog|Oss)-[a-z-]+|sig|signature|[a-z_.-]*token|[a-z_.-]*secret|[a-z_.-]*password"
            r"|AWSAccessKeyId|[a-z_-]*api[_-]?key)=)[^&\s\"'<>]+",
            re.IGNORECASE,
        ),
        r"\1***",
    ),
    (
        re.compile(
            r"([\w.-]*(?:secret|passw(?:or)?d|account[_.-]?key|access[_.-]?key|(?:session|sas|access|bearer)[_.-]?token"
            r"|credential)[\w.-]*[\"']?\s*[:=]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&\"'}]+)",
            re.IGNORECASE,
        ),
        r"\1***",
    ),
    (re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9+/=._~-]{8,}"), r"\1 ***"),
)


def without_secrets(text: str) -> str:
    """A location or a message as it may be shown and logged: passwords, tokens and signatures are left out."""
    for secret, shown in _SECRETS:
        text = secret.sub(shown, text)
    return text


class FormatkitError(Exception):
    """Base of all errors of this package.

    Messages have no secrets in them. Facts, such as `location`, are what the program gave.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        message = without_secrets(message)
        super().__init__(message)
        self.message = message
        self.__dict__.update(facts)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(cls: type[FormatkitError], message: str, state: dict[str, Any]) -> FormatkitError:
    # `cls.__new__` may be that of a builtin whose instances are made otherwise: Python refuses MemoryError's.
    base: Any = cls.__base__
    error: FormatkitError = base.__new__(cls, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


class ConfigurationError(FormatkitError, ValueError):
    """The caller gave an option or property that cannot be used."""


class IoUringUnavailableError(ConfigurationError):
    """io_uring was required and this machine does not offer it. `reason` says why not."""

    reason: str = ""


class InvalidPredicateError(FormatkitError, ValueError):
    """The caller's filter cannot be parsed, or compares a column with a value of another kind."""


class ColumnNotFoundError(FormatkitError, LookupError):
    """The caller named a column that the schema does not have."""

    def __init__(self, name: str, available: Iterable[str]) -> None:
        columns = tuple(available)
        near = get_close_matches(name, columns, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(
            f"no column {name!r}; the schema has: {', '.join(columns) or 'no columns'}{hint}",
            name=name,
            available=columns,
        )


class AmbiguousColumnError(FormatkitError, LookupError):
    """A case-insensitive name fits more than one column."""

    def __init__(self, name: str, candidates: Iterable[str]) -> None:
        columns = tuple(candidates)
        super().__init__(
            f"column {name!r} is ambiguous when case is ignored: it fits {', '.join(columns)}; "
            "use case_sensitive=True with the exact name",
            name=name,
            candidates=columns,
        )


class FormatNotRegisteredError(FormatkitError, LookupError):
    """No plugin serves this file format and batch type. Raised while planning, never mid-stream."""


class DuplicateFormatError(FormatkitError, ValueError):
    """Two plugins claim the same file format and batch type."""


class PluginLoadError(FormatkitError, ImportError):
    """An installed plugin cannot be imported, most often because an optional dependency is missing."""

    # ImportError keeps its message in a slot of its own, which str() would prefer.
    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.msg = message


class UnsupportedError(FormatkitError, NotImplementedError):
    """The request needs something that the plugin, the format or this release does not offer."""


class ContractViolationError(FormatkitError, TypeError):
    """A plugin broke a clause of the contract. `clause` is its number, such as ``"R4"``."""

    def __init__(self, clause: str, message: str, **facts: Any) -> None:
        super().__init__(f"clause {clause} of the format contract is broken: {message}", clause=clause, **facts)


class SchemaResolutionError(FormatkitError, ValueError):
    """A file's schema does not fit the table's schema."""


class MissingRequiredFieldError(SchemaResolutionError):
    """A required field is neither in the file nor given by a partition value or a default."""


class IllegalPromotionError(SchemaResolutionError):
    """The file stores a type that Iceberg does not let a reader widen to the table's type."""


class MissingFieldIdsError(SchemaResolutionError):
    """The file has no field ids and the table has no name mapping."""


class InvalidDataError(FormatkitError, ValueError):
    """A value cannot be represented as asked: null in a required column, a promotion out of range."""


class InvalidTableError(FormatkitError, ValueError):
    """The metadata of a table contradicts itself. `location` names the data file, where there is one."""


class CorruptFileError(FormatkitError, ValueError):
    """The file's bytes are not what its format says they must be. `location` names the file."""


class OutOfMemoryError(FormatkitError, MemoryError):
    """There is not enough memory. `location` names the file, `asked_bytes` says how much was asked for, if known."""

    location: str | None = None
    asked_bytes: int | None = None


class StorageError(FormatkitError, OSError):
    """The storage failed. `retryable` says whether the same call may succeed later.

    `timed_out` says that the storage did not answer. What it was asked to do may still happen.
    """

    retryable: bool = False
    timed_out: bool = False


class FileMissingError(StorageError, FileNotFoundError):
    """There is no file at this location."""


class FileAlreadyExistsError(StorageError, FileExistsError):
    """There is a file at this location and overwriting was not asked for."""


class PreconditionFailedError(StorageError):
    """The file is not the one that the reader asked for: it was replaced or changed. `etag` is that of today's file."""

    etag: str | None = None


class NotModifiedError(StorageError):
    """The file is still the one that the reader has, so nothing was read. `etag` is that of the file."""

    etag: str | None = None


class CommitConflictError(FormatkitError, RuntimeError):
    """Another writer changed the table in a way that the commit cannot be combined with. Nothing was committed.

    `snapshot_id` is the other writer's snapshot and `location` the file in question, where there is one.
    """

    snapshot_id: int | None = None
    location: str | None = None


class CommitStateUnknownError(FormatkitError, RuntimeError):
    """The catalog did not say whether the commit took place, so no file was deleted. `snapshot_id` tells later."""

    snapshot_id: int | None = None


class InternalError(FormatkitError, AssertionError):
    """A promise inside formatkit does not hold. It is a bug of formatkit; please report it."""


_ASKED = re.compile(r"(?:size|allocate)\s+(\d+)")
_SIGNS_OF_NO_MEMORY = ("std::bad_alloc", "not enough memory", "Cannot allocate memory")
"""How libraries say it in errors that are not `MemoryError`."""


def asked_bytes(error: Exception) -> int | None:
    """How much memory was asked for in vain, if the error says so."""
    found = _ASKED.search(str(error))
    return None if found is None else int(found[1])


@contextmanager
def enough_memory(location: str) -> Iterator[None]:
    """Say of a lack of memory inside the block which file it is about, and what to do."""
    try:
        yield
    except FormatkitError:
        raise
    except Exception as error:
        if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in _SIGNS_OF_NO_MEMORY):
            raise
        asked = asked_bytes(error)
        amount = "" if asked is None else f" for {asked} more bytes"
        raise OutOfMemoryError(
            f"{location}: there is not enough memory{amount}. Smaller batches (batch_rows), fewer threads or fewer "
            "columns need less",
            location=location,
            asked_bytes=asked,
        ) from error
