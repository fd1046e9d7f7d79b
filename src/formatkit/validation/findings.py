"""What validation finds: findings, each with a code, and the report of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Literal, NamedTuple

from formatkit.errors import (
    ContractViolationError,
    CorruptFileError,
    FileMissingError,
    FormatkitError,
    FormatNotRegisteredError,
    InternalError,
    InvalidDataError,
    InvalidTableError,
    MisleadingStatisticsError,
    OutOfMemoryError,
    PluginLoadError,
    SchemaResolutionError,
    StorageError,
    UnsupportedError,
    printable,
    without_secrets,
)
from formatkit.forks import fork_safe

__all__ = ["CODES", "Code", "Finding", "Findings", "Found", "Report", "Severity"]

Severity = Literal["error", "warning", "info"]

_REWRITE = "rewrite the file: formatkit rewrite TABLE"
_REPAIR = "restore the file from a backup, or roll the table back to a snapshot that is sound"
_COMMIT = "commit the table's files anew with a writer that is right, for example by formatkit rewrite TABLE"
_METADATA = "let the catalog point at an older metadata file, or repair this one"


class Code(NamedTuple):
    """A kind of finding: how bad it is, what it means, and what to do."""

    severity: Severity
    meaning: str
    advice: str


CODES: Mapping[str, Code] = {
    # Any file
    "file-missing": Code("error", "A file that metadata refers to does not exist.", _REPAIR),
    "file-length": Code("error", "A file has another length than metadata says.", _REPAIR),
    "file-corrupt": Code("error", "A file cannot be decoded.", _REPAIR),
    "storage-failed": Code("error", "The storage did not deliver a file.", "try again; check credentials and network"),
    "not-checked": Code(
        "warning", "A file or a column cannot be checked.", "install what the message names, or use another engine"
    ),
    "reader-failed": Code(
        "error", "A reader failed in a way that it must not.", "report it to whoever made the format's plugin"
    ),
    # Data files
    "row-count": Code("error", "A file has another number of rows than it or its manifest says.", _REWRITE),
    "positions": Code("error", "The positions of rows in a file are not 0, 1, 2, …", _REWRITE),
    "value-invalid": Code("error", "A value cannot be represented in the type of its column.", _REWRITE),
    "schema-mismatch": Code("error", "The columns of a file do not fit the schema.", _REWRITE),
    "field-id-twice": Code("error", "Two columns of a file have the same field id.", _REWRITE),
    "field-id-unknown": Code("warning", "No schema of the table has a field id.", _REWRITE),
    "required-null": Code("error", "A required column has nulls.", _REWRITE),
    "statistics-wrong": Code(
        "error", "Statistics inside a file make readers skip rows that match, or find other rows.", _REWRITE
    ),
    "statistics-dropped": Code(
        "warning", "Statistics inside a file cannot be true, or their writer is not to be believed.", _REWRITE
    ),
    # Manifests against rows
    "value-count": Code("error", "The value count of a column is wrong.", _REWRITE),
    "null-count": Code("error", "The null count of a column is wrong.", _REWRITE),
    "nan-count": Code("error", "The NaN count of a column is wrong.", _REWRITE),
    "bounds-narrow": Code("error", "A value lies outside the bounds of its column.", _REWRITE),
    "bounds-inverted": Code("error", "The lower bound of a column is above its upper bound.", _REWRITE),
    "bound-invalid": Code("warning", "A bound is no value of the type of its column.", _REWRITE),
    "partition-value": Code("error", "A row does not belong to the partition of its file.", _REWRITE),
    "partition-invalid": Code("error", "A partition value is none of the type that its spec says.", _REWRITE),
    "sort-order": Code("warning", "The rows of a file are not in the sort order that it claims.", _REWRITE),
    "split-offsets": Code("warning", "Split offsets do not ascend, or lie outside the file.", _REWRITE),
    # Manifests and manifest lists
    "manifest-corrupt": Code("error", "A manifest or a manifest list cannot be read.", _REPAIR),
    "manifest-counts": Code("error", "The manifest list counts other files or rows than a manifest has.", _COMMIT),
    "manifest-summary": Code("error", "A partition summary of the manifest list leaves out a value.", _COMMIT),
    "sequence-number": Code("error", "A sequence number is impossible.", _COMMIT),
    "file-twice": Code("error", "A snapshot lists a file twice, so that its rows count twice.", _COMMIT),
    "row-id-range": Code("error", "Row ids of two files overlap, or are missing or not yet assigned.", _COMMIT),
    "snapshot-summary": Code(
        "warning", "A total of a snapshot's summary is wrong.", "no reader of rows heeds it; the next rewrite mends it"
    ),
    "plan-failed": Code("error", "A scan of the snapshot cannot be planned.", _COMMIT),
    # Deletes
    "delete-position": Code("warning", "A deleted position is outside its data file.", "rewrite the data file"),
    "delete-path": Code("error", "A delete file names a data file that its manifest entry excludes.", _COMMIT),
    "delete-dangling": Code("info", "A delete file applies to no data file.", "formatkit rewrite TABLE drops it"),
    "delete-key": Code("error", "Equality deletes compare a column that the table never had.", _COMMIT),
    "deletion-vector": Code("error", "A deletion vector is not what its manifest entry says.", _COMMIT),
    # metadata.json
    "metadata-corrupt": Code("error", "The metadata of the table cannot be read, or contradicts itself.", _METADATA),
    "snapshot-unknown": Code("error", "A reference names a snapshot that the table does not have.", _METADATA),
    "snapshot-log": Code("warning", "The snapshot log names a snapshot that the table does not have.", _METADATA),
    "schema-unknown": Code("error", "Metadata refers to a schema that the table does not have.", _METADATA),
    "spec-unknown": Code("error", "Metadata refers to a partition spec that the table does not have.", _METADATA),
    "sort-order-unknown": Code("warning", "Metadata refers to a sort order that the table does not have.", _METADATA),
    "column-unknown": Code("error", "A spec or sort order is made from a column that no schema has.", _METADATA),
    "last-id": Code("error", "A counter of the table is below an id that is taken already.", _METADATA),
    "metadata-log": Code(
        "info", "An older metadata file of the metadata log is missing.", "nothing, unless you want to go back to it"
    ),
    "statistics-file": Code(
        "warning", "A statistics file is missing, or not what metadata says.", "compute the statistics anew"
    ),
}
_RANKS: Mapping[str, int] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One contradiction.

    Attributes:
        severity: ``error`` if a reader may fail or give wrong rows, ``warning`` if metadata is wrong that readers of
            rows do not heed, ``info`` for what is merely of no use.
        code: The kind, one of `CODES`.
        location: The file that is wrong.
        said: What is written there.
        found: What is true.
        advice: What to do.
    """

    severity: Severity
    code: str
    location: str
    said: str
    found: str
    advice: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """All findings about a table or a file. Printing it gives a page.

    Attributes:
        target: What was validated.
        findings: The worst first.
        checked: How much was looked at: snapshots, manifests, files, rows.
        planned: After a dry run, what else would be looked at.
    """

    target: str
    findings: tuple[Finding, ...]
    checked: Mapping[str, int] = field(default_factory=dict)
    planned: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there is no finding of the severity ``error``."""
        return all(finding.severity != "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "target": self.target,
            "ok": self.ok,
            "checked": dict(self.checked),
            **({"planned": dict(self.planned)} if self.planned else {}),
            "findings": [asdict(finding) for finding in self.findings],
        }

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {what}" for what, count in self.checked.items())
        lines = [f"{self.target}: {'sound' if self.ok else 'NOT SOUND'} ({counts})"]
        if self.planned:
            lines.append(f"still to check: {', '.join(f'{count:,} {what}' for what, count in self.planned.items())}")
        for each in self.findings:
            lines += [
                f"{each.severity:<8} {each.code}  {each.location}",
                f"         said   {each.said}",
                f"         found  {each.found}",
                f"         do     {each.advice}",
            ]
        return "\n".join(map(printable, lines))


@dataclass(frozen=True)
class Found:
    """What a part of a validation found. Can be pickled.

    Attributes:
        findings: Each once.
        checked: How much was looked at.
    """

    findings: tuple[Finding, ...]
    checked: Mapping[str, int]


@dataclass(frozen=True)
class _Reading(AbstractContextManager[None, bool]):
    findings: Findings
    location: str
    said: str
    corrupt: str

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.findings.add_error(error, self.location, self.said, self.corrupt)
        return True


class Findings:
    """Collects findings from any thread."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}
        self._checked: Counter[str] = Counter()
        self._lock = fork_safe(threading.Lock())

    def add(self, code: str, location: str, *, said: object, found: object) -> None:
        """Keep a finding, once."""
        known = CODES[code]
        finding = Finding(
            severity=known.severity,
            code=code,
            location=without_secrets(location),
            said=without_secrets(str(said)),
            found=without_secrets(str(found)),
            advice=known.advice,
        )
        with self._lock:
            self._found[finding] = None

    def count(self, what: str, number: int = 1) -> None:
        """Keep an account of what was looked at."""
        with self._lock:
            self._checked[what] += number

    def reading(self, location: str, said: str, corrupt: str = "file-corrupt") -> AbstractContextManager[None, bool]:
        """A block in which errors become findings, after which work goes on.

        Args:
            location: The file that is read.
            said: What it should be.
            corrupt: The code if it cannot be decoded.
        """
        return _Reading(self, location, said, corrupt)

    def add_error(self, error: Exception, location: str, said: str, corrupt: str = "file-corrupt") -> None:
        """Make a finding of an error; the arguments are those of `reading`.

        Plugins and libraries below them may fail in ways that nobody foresaw. That is a finding, too, because one file
        must not keep the others from being checked.
        """
        if isinstance(error, FormatkitError) and not isinstance(error, InternalError | ContractViolationError):
            named = getattr(error, "location", None) or location
            self.add(_code_of(error, corrupt), str(named), said=said, found=error)
        else:
            self.add("reader-failed", location, said=said, found=f"{type(error).__name__}: {error}")

    def found(self) -> Found:
        """What was found up to now, for another process."""
        return Found(tuple(self._found), dict(self._checked))

    def add_found(self, found: Found) -> None:
        """Keep what was found elsewhere."""
        with self._lock:
            self._found.update(dict.fromkeys(found.findings))
            self._checked.update(found.checked)

    def report(self, target: str, planned: Mapping[str, int] | None = None) -> Report:
        """What was found up to now."""
        order = sorted(self._found, key=lambda each: (_RANKS[each.severity], each.location, each.code))
        return Report(
            target=without_secrets(target), findings=tuple(order), checked=dict(self._checked), planned=planned or {}
        )


_ERROR_CODES: Sequence[tuple[tuple[type[FormatkitError], ...], str]] = (
    ((FileMissingError,), "file-missing"),
    ((StorageError,), "storage-failed"),
    ((MisleadingStatisticsError,), "statistics-wrong"),
    ((InvalidDataError,), "value-invalid"),
    ((SchemaResolutionError,), "schema-mismatch"),
    ((UnsupportedError, FormatNotRegisteredError, PluginLoadError, OutOfMemoryError), "not-checked"),
)


def _code_of(error: FormatkitError, corrupt: str) -> str:
    if isinstance(error, CorruptFileError | InvalidTableError):
        return corrupt
    return next((code for kinds, code in _ERROR_CODES if isinstance(error, kinds)), corrupt)
