"""The options of ``spark.read.format("formatkit")``, by the names that Iceberg gives them."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal

from formatkit.errors import ConfigurationError, UnsupportedError

__all__ = ["CATALOG_PREFIX", "SourceOptions", "Version", "parse_options"]

CATALOG_PREFIX = "catalog."
_READ_PREFIX = "read."
_NAMES = (
    "path",
    "catalog",
    "snapshot-id",
    "as-of-timestamp",
    "versionAsOf",
    "timestampAsOf",
    "branch",
    "tag",
    "columns",
    "metadata-columns",
    "filter",
    "limit",
    "case-sensitive",
    "nanoseconds",
    "missing-ids",
    "buckets",
    "split-size",
    "file-open-cost",
    "batch-size",
    "threads",
    # Of no use here, and harmless in programs that were written for Iceberg's own source.
    "lookback",
    "locality",
    "vectorization-enabled",
)
_INCREMENTAL = ("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp", "stream-from-timestamp")
_TRUTH = {"true": True, "false": False}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VersionKind = Literal["snapshot", "moment", "branch", "tag", "name"]


@dataclass(frozen=True, slots=True)
class Version:
    """Which state of a table is meant.

    Attributes:
        kind: How it is said; a ``name`` is that of a branch or of a tag, and a ``moment`` is in milliseconds.
        value: The id, the name or the moment.
        option: What the user called it.
    """

    kind: VersionKind
    value: Any
    option: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a user asks of the data source; None where nothing was said.

    Attributes:
        path: The table: an identifier, or the location of a metadata file.
        catalog: The catalog's name.
        catalog_properties: For the catalog and for storage, in the words of pyiceberg.
        version: Which state of the table.
        scan_arguments: For `formatkit.scan`.
        nanoseconds: As in `formatkit.spark.read`.
        buckets: The most Spark partitions.
        split_bytes: About how many bytes a Spark partition reads.
        open_cost: As how many bytes a small file counts.
    """

    path: str
    catalog: str | None
    catalog_properties: Mapping[str, str]
    version: Version | None
    scan_arguments: Mapping[str, Any]
    nanoseconds: Any
    buckets: int | None
    split_bytes: int | None
    open_cost: int | None

    def __repr__(self) -> str:  # without the catalog's secrets
        return f"<options of {self.path!r}>"


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Read the options of a user, whose names Spark gives in small letters.

    Raises:
        ConfigurationError: An option is unknown, is said twice, or has a value that cannot be used.
        UnsupportedError: It asks for what Iceberg's own source can do and this one cannot.
    """
    given = _Given(options)
    if not given.text("path"):
        message = 'no table is named; say it in load("db.table"), or in the option path of SQL'
        raise ConfigurationError(message)
    if given.text("buckets") and given.text("split-size"):
        raise ConfigurationError("give buckets or split-size, not both: the one follows from the other")
    return SourceOptions(
        path=given.text("path") or "",
        catalog=given.text("catalog"),
        catalog_properties=given.below(CATALOG_PREFIX),
        version=_version(given),
        scan_arguments=_scan_arguments(given),
        nanoseconds=given.one_of("nanoseconds", ("error", "floor", "integer")) or "error",
        buckets=given.number("buckets", 1),
        split_bytes=given.number("split-size", 1),
        open_cost=given.number("file-open-cost", 0),
    )


def _scan_arguments(given: _Given) -> dict[str, Any]:
    found = {
        "where": given.text("filter"),
        "select": (*(given.names("columns") or ("*",)), *(given.names("metadata-columns") or ())),
        "limit": given.number("limit", 0),
        "case_sensitive": given.truth("case-sensitive"),
        "missing_ids": given.one_of("missing-ids", ("error", "by-name", "by-position")),
        "batch_rows": given.number("batch-size", 1),
        "threads": given.number("threads", 1),
        "properties": {_READ_PREFIX + name: value for name, value in given.below(_READ_PREFIX).items()} or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _version(given: _Given) -> Version | None:
    snapshot, moment = given.number("snapshot-id"), given.number("as-of-timestamp")
    said = [
        Version("snapshot", snapshot, "snapshot-id") if snapshot is not None else None,
        Version("moment", moment, "as-of-timestamp") if moment is not None else None,
        _spark_version(given.text("versionAsOf")),
        _spark_moment(given.text("timestampAsOf")),
        *(Version(kind, given.text(kind), kind) if given.text(kind) else None for kind in ("branch", "tag")),
    ]
    versions = [version for version in said if version is not None]
    if len(versions) > 1:
        names = " and ".join(version.option for version in versions)
        raise ConfigurationError(f"the options {names} each choose a state of the table; give one of them")
    return versions[0] if versions else None


def _spark_version(text: str | None) -> Version | None:
    if text is None:
        return None
    # A name that looks like a number is a snapshot, as with Iceberg.
    kind: VersionKind = "snapshot" if text.isascii() and text.isdigit() else "name"
    return Version(kind, int(text) if kind == "snapshot" else text, "versionAsOf")


def _spark_moment(text: str | None) -> Version | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"the option timestampAsOf is {text!r}, which is no moment like 2026-01-31T12:00:00Z"
        raise ConfigurationError(message) from error
    if moment.tzinfo is None:
        message = (
            f"the option timestampAsOf is {text!r}, which has no time zone, and a data source is not told that of the "
            "session; add it (2026-01-31T12:00:00Z, 2026-01-31T12:00:00+02:00)"
        )
        raise ConfigurationError(message)
    return Version("moment", (moment - _EPOCH) // timedelta(milliseconds=1), "timestampAsOf")


class _Given:
    """Options by their names, however those are spelt: ``snapshot-id``, ``snapshot_id`` or ``snapshotId``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._prefixed = {}
        self._values: dict[str, str] = {}
        spelt: dict[str, str] = {}
        names = {_plain(name): name for name in _NAMES}
        for key, value in options.items():
            if key.lower().startswith((CATALOG_PREFIX, _READ_PREFIX)):
                self._prefixed[key.lower()] = value
                continue
            name = names.get(_plain(key))
            if name is None:
                raise _unknown(key)
            if name in spelt:
                raise ConfigurationError(f"the options {spelt[name]} and {key} are the same one; give one of them")
            spelt[name] = key
            self._values[name] = value

    def below(self, prefix: str) -> dict[str, str]:
        return {key[len(prefix) :]: value for key, value in self._prefixed.items() if key.startswith(prefix)}

    def text(self, name: str) -> str | None:
        text = self._values.get(name)
        return None if text is None else text.strip() or None

    def number(self, name: str, least: int | None = None) -> int | None:
        text = self.text(name)
        try:
            number = None if text is None else int(text)
        except ValueError as error:
            raise ConfigurationError(f"the option {name} is {text!r}, which is no whole number") from error
        if number is not None and least is not None and number < least:
            raise ConfigurationError(f"the option {name} must be at least {least}, not {number}")
        return number

    def truth(self, name: str) -> bool | None:
        text = self.one_of(name, tuple(_TRUTH))
        return None if text is None else _TRUTH[text]

    def one_of(self, name: str, words: tuple[str, ...]) -> str | None:
        text = self.text(name)
        if text is None or text.lower() in words:
            return text and text.lower()
        raise ConfigurationError(f"the option {name} must be {', '.join(words[:-1])} or {words[-1]}, not {text!r}")

    def names(self, name: str) -> list[str] | None:
        """Names with commas between; one with a comma in it stands in backticks."""
        text = self.text(name)
        if text is None:
            return None
        (row,) = csv.reader([text], quotechar="`", skipinitialspace=True)
        return [each.strip() for each in row if each.strip()]


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _unknown(name: str) -> Exception:
    if name.lower() in _INCREMENTAL or name.lower().startswith("streaming-"):
        message = f"the option {name} asks for changes between snapshots, which the source formatkit cannot read"
        return UnsupportedError(message)
    near = get_close_matches(name.lower(), [each.lower() for each in _NAMES], n=1)
    hint = next((f" (did you mean {each}?)" for each in _NAMES if near and each.lower() == near[0]), "")
    message = f"the source formatkit has no option {name}{hint}; it has: {', '.join(_NAMES)}, catalog.*, read.*"
    return ConfigurationError(message)
