"""The options of ``spark.read.format("formatkit")``, by the names that Iceberg gives them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal

from formatkit.errors import ConfigurationError
from formatkit.scan.incremental.snapshots import NonAppends

__all__ = [
    "CATALOG_PREFIX",
    "NamedOptions",
    "SourceOptions",
    "StreamOptions",
    "Version",
    "nearest_name",
    "parse_options",
    "plain_name",
]

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
    "start-snapshot-id",
    "end-snapshot-id",
    "start-timestamp",
    "end-timestamp",
    "overwrite-snapshots",
    "delete-snapshots",
    "starting-offsets",
    "stream-from-snapshot-id",
    "stream-from-timestamp",
    "streaming-max-rows-per-micro-batch",
    "streaming-max-files-per-micro-batch",
    "streaming-max-bytes-per-micro-batch",
    "streaming-skip-overwrite-snapshots",
    "streaming-skip-delete-snapshots",
    "streaming-read-added-files",
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
_STREAM_STARTS = ("start-snapshot-id", "stream-from-snapshot-id", "stream-from-timestamp", "starting-offsets")
_OF_STREAMS = ("starting-offsets", "stream")
_NO_STREAM = ("end-snapshot-id", "start-timestamp", "end-timestamp", "limit")
_RANGE = ("start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp")
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
class StreamOptions:
    """What a user asks of a stream of a table; None where nothing was said.

    Attributes:
        after_snapshot: The last snapshot that is not read.
        from_snapshot: The first snapshot that is read.
        from_timestamp: The moment, in milliseconds, from which snapshots are read.
        from_latest: Whether only snapshots are read that are committed after the stream began.
        max_rows: The most rows of a micro-batch; one file is read in any case.
        max_files: The most files of a micro-batch.
        max_bytes: The most bytes of files of a micro-batch; one file is read in any case.
        non_appends: What to do about snapshots that did not only append.
        misplaced: Options that a stream has no use for.
    """

    after_snapshot: int | None = None
    from_snapshot: int | None = None
    from_timestamp: int | None = None
    from_latest: bool = False
    max_rows: int | None = None
    max_files: int | None = None
    max_bytes: int | None = None
    non_appends: NonAppends = field(default_factory=NonAppends)
    misplaced: tuple[str, ...] = ()


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
        stream: What counts if the table is read as a stream.
        only_streams: Options that only a stream has a use for.
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
    stream: StreamOptions = field(default_factory=StreamOptions)
    only_streams: tuple[str, ...] = ()

    def __repr__(self) -> str:  # without the catalog's secrets
        return f"<options of {self.path!r}>"


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Read the options of a user, whose names Spark gives in small letters.

    Raises:
        ConfigurationError: An option is unknown, is said twice, or has a value that cannot be used.
    """
    given = NamedOptions(options, _NAMES, (CATALOG_PREFIX, _READ_PREFIX), _unknown)
    if not given.text("path"):
        message = 'no table is named; say it in load("db.table"), or in the option path of SQL'
        raise ConfigurationError(message)
    if given.text("buckets") and given.text("split-size"):
        raise ConfigurationError("give buckets or split-size, not both: the one follows from the other")
    version, stream = _version(given), _stream(given)
    appended = _appended(given, stream.non_appends)
    if version is not None and version.kind not in ("branch", "name") and appended:
        names = " and ".join(name for name in _RANGE if given.text(name))
        message = f"the option {version.option} asks for a state of the table, and {names} for changes; give one"
        raise ConfigurationError(message)
    return SourceOptions(
        path=given.text("path") or "",
        catalog=given.text("catalog"),
        catalog_properties=given.below(CATALOG_PREFIX),
        version=version,
        scan_arguments=_scan_arguments(given) | appended,
        nanoseconds=given.one_of("nanoseconds", ("error", "floor", "integer")) or "error",
        buckets=given.number("buckets", 1),
        split_bytes=given.number("split-size", 1),
        open_cost=given.number("file-open-cost", 0),
        stream=stream,
        only_streams=tuple(name for name in _NAMES if name.startswith(_OF_STREAMS) and given.text(name)),
    )


def _appended(given: NamedOptions, non_appends: NonAppends) -> dict[str, Any]:
    """The arguments of `formatkit.scan` about rows that snapshots appended; none if these are not asked for."""
    found = {name.replace("-", "_"): given.number(name) for name in _RANGE if given.text(name)}
    if not found:
        return {}
    return {
        **found,
        "overwrite_snapshots": non_appends.overwrite_snapshots,
        "delete_snapshots": non_appends.delete_snapshots,
    }


def _stream(given: NamedOptions) -> StreamOptions:
    starts = [name for name in _STREAM_STARTS if given.text(name)]
    if len(starts) > 1:
        raise ConfigurationError(f"the options {' and '.join(starts)} each say where a stream begins; give one of them")
    states = ("snapshot-id", "as-of-timestamp", "tag", "versionAsOf", "timestampAsOf")
    return StreamOptions(
        after_snapshot=given.number("start-snapshot-id"),
        from_snapshot=given.number("stream-from-snapshot-id"),
        from_timestamp=given.number("stream-from-timestamp"),
        from_latest=given.one_of("starting-offsets", ("earliest", "latest")) == "latest",
        max_rows=given.number("streaming-max-rows-per-micro-batch", 1),
        max_files=given.number("streaming-max-files-per-micro-batch", 1),
        max_bytes=given.number("streaming-max-bytes-per-micro-batch", 1),
        non_appends=_non_appends(given),
        misplaced=tuple(name for name in (*_NO_STREAM, *states) if given.text(name)),
    )


def _non_appends(given: NamedOptions) -> NonAppends:
    """What to do about overwrites and deletes, in our own words or in those that Iceberg has for streams."""
    skips = given.truth("streaming-skip-overwrite-snapshots")
    reads = given.truth("streaming-read-added-files")
    if skips and reads:
        message = (
            "the option streaming-skip-overwrite-snapshots reads nothing of an overwrite, and "
            "streaming-read-added-files reads the files that it added; give one of them"
        )
        raise ConfigurationError(message)
    overwrites = given.one_of("overwrite-snapshots", ("error", "skip", "added-files"))
    deletes = given.one_of("delete-snapshots", ("error", "skip"))
    if overwrites and (skips or reads):
        raise ConfigurationError("overwrite-snapshots says it all; leave out the options streaming-… about overwrites")
    found: dict[str, Any] = {
        "overwrite_snapshots": overwrites or ("skip" if skips else "added-files" if reads else "error"),
        "delete_snapshots": deletes or ("skip" if given.truth("streaming-skip-delete-snapshots") else "error"),
    }
    return NonAppends(**found)


def _scan_arguments(given: NamedOptions) -> dict[str, Any]:
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


def _version(given: NamedOptions) -> Version | None:
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


class NamedOptions:
    """Options by their names, however those are spelt: ``snapshot-id``, ``snapshot_id`` or ``snapshotId``.

    Args:
        options: As they were given; those that are None were not.
        names: The options that there are.
        prefixes: Of options whose names go on as the user likes.
        unknown: What to raise for any other.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        names: Sequence[str],
        prefixes: Sequence[str],
        unknown: Callable[[str], Exception],
    ) -> None:
        self._prefixed: dict[str, dict[str, str]] = {prefix: {} for prefix in prefixes}
        self._values: dict[str, str] = {}
        spelt: dict[str, str] = {}
        known = {plain_name(name): name for name in names}
        for key, value in options.items():
            if value is None:
                continue
            prefix = next((each for each in prefixes if key.lower().startswith(each)), None)
            if prefix is not None:
                self._prefixed[prefix][key[len(prefix) :]] = str(value)
                continue
            name = known.get(plain_name(key))
            if name is None:
                raise unknown(key)
            if name in spelt:
                raise ConfigurationError(f"the options {spelt[name]} and {key} are the same one; give one of them")
            spelt[name] = key
            self._values[name] = str(value).lower() if isinstance(value, bool) else str(value)

    def below(self, prefix: str) -> dict[str, str]:
        """Options that begin with a prefix, without it."""
        return self._prefixed[prefix]

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


def plain_name(name: str) -> str:
    """The name of an option without what spellings differ in."""
    return name.lower().replace("-", "").replace("_", "")


def nearest_name(name: str, names: Sequence[str]) -> str:
    """A hint at the option that may have been meant; empty if there is none."""
    near = get_close_matches(plain_name(name), list(map(plain_name, names)), n=1)
    return next((f" (did you mean {each}?)" for each in names if near and plain_name(each) == near[0]), "")


def _unknown(name: str) -> Exception:
    hint = nearest_name(name, _NAMES)
    message = f"the source formatkit has no option {name}{hint}; it has: {', '.join(_NAMES)}, catalog.*, read.*"
    return ConfigurationError(message)
