"""The many spellings of one location: delete files name data files, and not all writers spell them alike."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from formatkit.errors import ConfigurationError, InvalidTableError

__all__ = ["Locations", "Spelling", "bare_path", "begins_one", "canonical_location", "spelling", "spellings"]

_EQUAL_PREFIXES = "read.path.equal-prefixes"
_MISMATCH_MODE = "read.path.prefix-mismatch-mode"
_MODES = ("error", "ignore")

_FILE_PREFIXES = ("", "file:", "file://", "file://localhost")
_S3_PREFIXES = ("s3:", "s3a:", "s3n:")
_SLASHES = re.compile("/{2,}")
_PREFIX = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/")


def canonical_location(location: str) -> str:
    """The one spelling to compare.

    ``file:/x``, ``file:///x`` and ``//x`` are ``/x``, and ``s3a`` and ``s3n`` are ``s3``.
    """
    if location.startswith("/"):
        return _single_slashes(location)
    scheme, colon, rest = location.partition(":")
    scheme = scheme.lower()
    if colon and f"{scheme}:" in _S3_PREFIXES and rest.startswith("//"):
        return f"s3:{rest}"
    if colon and scheme == "file":
        host, slash, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
        return _single_slashes(slash + path) if host in ("", "localhost") else location
    return location


def _single_slashes(path: str) -> str:
    return _SLASHES.sub("/", path) if "//" in path else path


def spellings(location: str) -> list[str]:
    """All spellings of a location that are in use."""
    canonical = canonical_location(location)
    if canonical.startswith("/"):
        return [prefix + canonical for prefix in _FILE_PREFIXES]
    if canonical.startswith("s3:"):
        return [prefix + canonical.removeprefix("s3:") for prefix in _S3_PREFIXES]
    return [location]


def bare_path(canonical: str) -> str:
    """What is left of a location without scheme, authority, doubled slashes and percent-encoding.

    Locations of one file agree in it, however they are spelled. Other files may, too.
    """
    scheme, colon, path = canonical.partition(":/")
    if not colon or "/" in scheme:
        path = canonical
    elif path.startswith("/"):
        # What looks like the host of a local file is its first folder to some.
        path = path[1:] if scheme.lower() == "file" else path[1:].partition("/")[2]
    if "%" in path:
        path = unquote(path)
    return _single_slashes(path).removeprefix("/")


def begins_one(beginning: str, ordered: Sequence[str]) -> str | None:
    """The first of some texts in order that begins so, if there is one."""
    place = bisect_left(ordered, beginning)
    return ordered[place] if place < len(ordered) and ordered[place].startswith(beginning) else None


class Spelling(NamedTuple):
    """In what the spellings of one location may differ. Locations that agree in it are compared as they are."""

    root: str
    doubles_slashes: bool
    encodes: bool


def spelling(canonical: str) -> Spelling | None:
    """How a location is spelled; None for a bound that was cut before its path begins."""
    root, slash, path = canonical.partition("/")
    if not slash:
        return None
    if root and path.startswith("/"):
        authority, slash, path = path[1:].partition("/")
        root = f"{root}//{authority}"
    return Spelling(root, "//" in path or path.startswith("/"), "%" in path)


class Locations:
    """Compares the locations of data files with those that deletes name.

    Args:
        properties: Those of the scan. ``read.path.equal-prefixes`` has groups of prefixes that mean the same place.
    """

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        properties = properties or {}
        self._groups: dict[str, list[str]] = {}
        for text in filter(None, map(str.strip, properties.get(_EQUAL_PREFIXES, "").split(";"))):
            self._add_group(text)
        self._prefixes = sorted(self._groups, key=len, reverse=True)
        mode = properties.get(_MISMATCH_MODE, "error").lower()
        if mode not in _MODES:
            raise ConfigurationError(f"{_MISMATCH_MODE} must be one of {', '.join(_MODES)}, not {mode!r}")
        self.ignores_mismatches = mode == "ignore"
        self.canonical: Callable[[str], str] = self._canonical if self._groups else canonical_location
        """From a location to the one spelling to compare."""

    def _add_group(self, text: str) -> None:
        prefixes = [each.strip() for each in text.split(",")]
        group = [canonical_location(each).removesuffix("/") for each in prefixes]
        unique = len(set(group)) == len(group) > 1 and self._groups.keys().isdisjoint(group)
        if not unique or not all(map(_PREFIX.match, prefixes)):
            message = (
                f"{_EQUAL_PREFIXES} must be groups of different prefixes such as 'hdfs://host:8020,/' or "
                f"'s3://a/,s3://b/', with a semicolon between groups; {text!r} is none"
            )
            raise ConfigurationError(message)
        self._groups |= dict.fromkeys(group, group)

    def _canonical(self, location: str) -> str:
        found = canonical_location(location)
        prefix = self._prefix(found)
        return found if prefix is None else self._groups[prefix][0] + found[len(prefix) :]

    def spellings(self, canonical: str) -> list[str]:
        """All spellings of a location that are in use."""
        prefix = self._prefix(canonical)
        if prefix is None:
            return spellings(canonical)
        rest = canonical[len(prefix) :]
        return [each for other in self._groups[prefix] for each in spellings(other + rest)]

    def _prefix(self, canonical: str) -> str | None:
        return next((each for each in self._prefixes if canonical.startswith(f"{each}/")), None)

    def same_paths(self, named: Iterable[str], data: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Which locations have the path of a data file, and which one; only those that may be spelled otherwise.

        Args:
            named: Canonical locations, or the beginnings of some, none of which is one of the data files.
            data: The locations of data files.
        """
        bare, spelled = {}, set()
        for location in data:
            canonical = self.canonical(location)
            bare[bare_path(canonical)] = location
            spelled.add(spelling(canonical))
        ordered = sorted(bare)
        for each in named:
            if {spelling(each)} != spelled and (path := begins_one(bare_path(each), ordered)) is not None:
                yield each, bare[path]

    def mismatch(self, delete: str, named: str, data: str) -> InvalidTableError:
        """The error for a delete that would not apply although it most likely is about a data file.

        Args:
            delete: Where the deletes are.
            named: The data file as they name it, or the beginning of that.
            data: The data file as the manifests name it.
        """
        cut = len(bare_path(data)) - len(bare_path(named))
        prefixes = _differing(named, data[: len(data) - cut] if cut > 0 else data)
        message = (
            f"{delete} deletes rows of {named}, while the table has the data file {data}: the same path, spelled "
            f"otherwise. If they are one file, set the property {_EQUAL_PREFIXES} to {prefixes!r}; if "
            f"they are not, set {_MISMATCH_MODE} to 'ignore'"
        )
        return InvalidTableError(message, location=data)


def _differing(one: str, other: str) -> str:
    """The prefixes in which two locations differ, as the property has them."""
    same = 0
    while same < min(len(one), len(other)) and one[-1 - same] == other[-1 - same]:
        same += 1
    # Up to the first folder that they have in common.
    tail = one[len(one) - same :]
    same = len(tail.partition("/")[2]) if "/" in tail else 0
    return f"{one[: len(one) - same]},{other[: len(other) - same]}"
