"""Every error that formatkit raises, grouped by whose turn it is to act.

Each class also inherits the builtin that a caller would catch anyway. Facts about the failure are attributes; the
message says what was asked, what was found and what to do. All of them survive pickling, because they cross process
borders in Spark.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

__all__ = [
    "AlreadyCommittedError",
    "AmbiguousColumnError",
    "CatalogError",
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
    "MisleadingStatisticsError",
    "MissingFieldIdsError",
    "MissingRequiredFieldError",
    "NonAppendSnapshotError",
    "NotModifiedError",
    "OutOfMemoryError",
    "PluginLoadError",
    "PreconditionFailedError",
    "SchemaResolutionError",
    "SnapshotExpiredError",
    "StorageError",
    "TableMissingError",
    "UnsupportedError",
]

_MAX_SHOWN_CHARACTERS = 200
_WORD_ENDS = re.compile(r"([\s\"'<>]+)")
_HOST_AND_PORT = re.compile(r"[^/:]*:[0-9]+/")
_QUERY = re.compile(r"[?#]")
# Besides URLs: parameters as clients of HTTP quote them, properties, and headers. No pattern looks back, and none looks
# far ahead, because messages may quote megabytes.
_SECRETS = (
    re.compile(
        r"([?&;](?:X-(?:Amz|Goog|Oss)-[a-z-]{1,40}|sig|signature|[a-z_.-]{0,40}(?:token|secret|password|api[_-]?key)"
        r"|AWSAccessKeyId)=)[^&\s\"'<>]+",
        re.IGNORECASE,
    ),
    re.compile(
        r"((?:secret|passw(?:or)?d|\bpwd|account[_.-]?key|access[_.-]?key|[\"']token(?=[\"'])|credential"
        r"|(?:session|sas|access|bearer|security|refresh|oauth2|hf|adls)[_.-]?token)"
        r"[\w.-]{0,40}[\"']?\s{0,4}[:=]\s{0,4})(?:\"[^\"]*\"|'[^']*'|[^\s,;&\"'}]+)",
        re.IGNORECASE,
    ),
    re.compile(r"\b((?:Bearer|Basic)\s)[A-Za-z0-9+/=._~-]{8,}"),
    re.compile(r"(\bauthorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:Bearer|Basic)\s)[^\s\"']+", re.IGNORECASE),
)


def without_secrets(text: str) -> str:
    """A location or a message as it may be shown and logged: passwords, tokens and signatures are left out."""
    if "://" in text:
        text = "".join(_url_without_secrets(word) if "://" in word else word for word in _WORD_ENDS.split(text))
    for secret in _SECRETS:
        text = secret.sub(r"\1***", text)
    return text


def _url_without_secrets(word: str) -> str:
    """A word with URLs in it without their user information, unless it is a name alone, and without queries."""
    scheme, *rest = word.split("://")
    parts = [scheme]
    for part in rest:
        path_end = min((part.find(mark) for mark in "?#" if mark in part), default=len(part))
        user, at, _ = part[:path_end].rpartition("@")
        named = ":" in user and not user.startswith("/") and not _HOST_AND_PORT.match(user)
        if at and (named or (parts[-1].lower().endswith(("http", "https")) and "/" not in user)):
            part = f"***{part[len(user) :]}"
        parts.append(part)
    whole = "://".join(parts)
    query = _QUERY.search(whole)
    if query is None or "=" not in whole[query.end() :]:
        return whole
    return f"{whole[: query.end()]}***{whole[len(whole.rstrip(':;,.)]')) :]}"


def printable(text: str) -> str:
    """The text with everything escaped that a terminal could obey: control characters, line ends, bidi overrides.

    Names of columns and files come with the data, so whoever wrote them could otherwise move the cursor, hide a line or
    turn one round on the screen of whoever reads a message.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]


class FormatkitError(Exception):
    """Base of all errors of this package.

    Messages have no secrets in them, and `str` is fit for a terminal. Facts, such as `location`, are what the program
    gave.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        message = without_secrets(message)
        super().__init__(message)
        self.message = message
        self.__dict__.update(facts)

    def __str__(self) -> str:
        return printable(self.message)

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
        shown = name if len(name) <= _MAX_SHOWN_CHARACTERS else f"{name[:_MAX_SHOWN_CHARACTERS]}…"
        super().__init__(
            f"no column {shown!r}; the schema has: {', '.join(columns) or 'no columns'}{hint}",
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


class NonAppendSnapshotError(FormatkitError, ValueError):
    """Rows that snapshots appended are asked for, and one of them did something else. `snapshot_id` names it."""

    snapshot_id: int | None = None


class SnapshotExpiredError(FormatkitError, LookupError):
    """Snapshots that are asked for are gone. `snapshot_id` is the oldest that is left."""

    snapshot_id: int | None = None


class MisleadingStatisticsError(FormatkitError, ValueError):
    """Statistics or metadata by which rows are skipped contradict the rows. Raised with `read.verify-skipping` only.

    `location` names the data file. `missing` are the first positions of rows that match and were left out, `surplus`
    those of rows that do not match, or are deleted, and were returned.
    """

    location: str | None = None
    missing: tuple[int, ...] = ()
    surplus: tuple[int, ...] = ()


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


class CatalogError(FormatkitError, RuntimeError):
    """The catalog refused what it was asked for, or could not be asked, so nothing was changed.

    `table` is the table's name; the catalog's own error is the cause.
    """

    table: str | None = None


class TableMissingError(CatalogError, LookupError):
    """The catalog has no such table: it was dropped or renamed."""


class CommitConflictError(FormatkitError, RuntimeError):
    """Another writer changed the table in a way that the commit cannot be combined with. Nothing was committed.

    `snapshot_id` is the other writer's snapshot and `location` the file in question, where there is one.
    """

    snapshot_id: int | None = None
    location: str | None = None


class AlreadyCommittedError(CommitConflictError):
    """The branch has the snapshot of this change already, so nothing was committed. `snapshot_id` is that snapshot."""


class CommitStateUnknownError(FormatkitError, RuntimeError):
    """The catalog did not say whether the commit took place, so no file was deleted. `snapshot_id` tells later."""

    snapshot_id: int | None = None


class InternalError(FormatkitError, AssertionError):
    """A promise inside formatkit does not hold. It is a bug of formatkit; please report it."""


_ASKED = re.compile(r"(?:size|allocate)\s+(\d+)")
_SIGNS_OF_NO_MEMORY = ("std::bad_alloc", "not enough memory", "Cannot allocate memory", "flateInit2()")
"""How libraries say it in errors that are not `MemoryError`."""
_SIGNS_OF_NO_THREAD = ("Failed to launch worker thread", "can't start new thread")
"""A thread needs memory for its stack; the system does not say whether that or a limit on threads is the reason."""


def asked_bytes(error: Exception) -> int | None:
    """How much memory was asked for in vain, if the error says so."""
    found = _ASKED.search(str(error))
    return None if found is None else int(found[1])


def _limit_on_memory() -> str:
    """What the system lets this process have, if it is less than there is: Spark's workers often are under a limit."""
    try:
        import resource
    except ImportError:  # not on Windows
        return ""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return ""
    return (
        f"; this process may have {limit >> 20} MiB of address space (RLIMIT_AS). For a worker of Spark that is "
        "spark.executor.pyspark.memory divided by the executor's cores: formatkit needs 768m for each core, and wide "
        "tables need more"
    )


@contextmanager
def enough_memory(location: str) -> Iterator[None]:
    """Say of a lack of memory inside the block which file it is about, and what to do."""
    try:
        yield
    except FormatkitError:
        raise
    except Exception as error:
        text = str(error)
        no_thread = any(sign in text for sign in _SIGNS_OF_NO_THREAD)
        if not (no_thread or isinstance(error, MemoryError) or any(sign in text for sign in _SIGNS_OF_NO_MEMORY)):
            raise
        asked = asked_bytes(error)
        amount = "" if asked is None else f" for {asked} more bytes"
        if no_thread:
            amount = " to start a thread, or no more threads are allowed (ulimit -u, pids.max)"
        raise OutOfMemoryError(
            f"{location}: there is not enough memory{amount}. Smaller batches (batch_rows), fewer threads or fewer "
            f"columns need less{_limit_on_memory()}",
            location=location,
            asked_bytes=asked,
        ) from error


_NO_TIME_ZONE = re.compile(r"[Tt]ime zone file \S+|Cannot locate timezone \S+|Unable to get Timezone \S+")
_RUST_OS_ERROR = re.compile(r"(?:\(os error |Os \{ code: )(\d+)")
_OF_THE_MACHINE = frozenset({
    errno.EACCES, errno.EAGAIN, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EPERM,
})  # fmt: skip
"""Numbers of failures that no bytes of a file can cause."""


def is_of_the_machine(error: BaseException) -> bool:
    """Whether an error has nothing to do with the bytes that were read: the system's own, an import, a cancellation."""
    cancelled = type(error).__name__ in ("ArrowCancelled", "CancelledError")
    return cancelled or isinstance(error, ImportError) or (isinstance(error, OSError) and error.errno is not None)


@contextmanager
def machine_errors(location: str) -> Iterator[None]:
    """Say of what the machine lacks inside the block that it is this, and not damage of the file.

    Libraries report a lack of memory, a missing time zone or too many open files by the same classes as broken bytes.
    """
    try:
        with enough_memory(location):
            yield
    except (FormatkitError, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of Rust are no Exception
        text = str(error)
        if _NO_TIME_ZONE.search(text):
            message = f"{location}: this machine lacks a time zone: {text}; install tzdata, or set TZDIR to where it is"
            raise UnsupportedError(message, location=location) from error
        found = _RUST_OS_ERROR.search(text)
        if found is None or int(found[1]) not in _OF_THE_MACHINE:
            raise
        number = int(found[1])
        message = f"{location}: the system refused: {os.strerror(number)}"
        raise StorageError(message, location=location, retryable=number == errno.EAGAIN) from error
