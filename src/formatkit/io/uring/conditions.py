"""Reads that depend on the state of the file, with the meaning that HTTP gives them (RFC 9110, section 13)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime

from formatkit.errors import ConfigurationError, NotModifiedError, PreconditionFailedError

__all__ = ["ReadConditions", "etag_of"]

_ANY = "*"


def etag_of(status: os.stat_result) -> str:
    """The tag of a local file: another one as soon as it is replaced, changed, or grows."""
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


@dataclass(frozen=True, kw_only=True)
class ReadConditions:
    """When to read. Tags may be a list with commas, or ``*`` for any; times have a time zone.

    As in HTTP, `if_unmodified_since` is looked at only without `if_match`, and `if_modified_since` only without
    `if_none_match`.
    """

    if_match: str | None = None
    if_none_match: str | None = None
    if_modified_since: datetime | None = None
    if_unmodified_since: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("if_modified_since", "if_unmodified_since"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                raise ConfigurationError(f"{name}={moment!r} has no time zone; pass for example one in UTC")

    @property
    def hold_while_reading(self) -> bool:
        """Whether the file must not change before the read is complete."""
        return self.if_match is not None or self.if_unmodified_since is not None

    def check(self, location: str, status: os.stat_result) -> None:
        """Raise `PreconditionFailedError` or `NotModifiedError` unless the file is to be read."""
        self.check_unchanged(location, status)
        etag, modified = etag_of(status), _modified(status)
        if self.if_none_match is not None:
            if _has(self.if_none_match, etag):
                raise NotModifiedError(
                    f"{location} was not read: its tag is still {etag}", location=location, etag=etag
                )
        elif self.if_modified_since is not None and modified <= self.if_modified_since:
            message = f"{location} was not read: it was changed last at {modified}, not after {self.if_modified_since}"
            raise NotModifiedError(message, location=location, etag=etag)

    def check_unchanged(self, location: str, status: os.stat_result) -> None:
        """Raise `PreconditionFailedError` if the file is not the one that was meant."""
        etag, modified = etag_of(status), _modified(status)
        if self.if_match is not None:
            if not _has(self.if_match, etag):
                message = f"{location} is another file than was asked for: its tag is {etag}, not {self.if_match}"
                raise PreconditionFailedError(message, location=location, etag=etag)
        elif self.if_unmodified_since is not None and modified > self.if_unmodified_since:
            message = f"{location} was changed at {modified}, after {self.if_unmodified_since}"
            raise PreconditionFailedError(message, location=location, etag=etag)


def _modified(status: os.stat_result) -> datetime:
    return datetime.fromtimestamp(status.st_mtime_ns / 1e9, tz=UTC)


def _has(tags: str, etag: str) -> bool:
    return tags.strip() == _ANY or etag in (tag.strip().strip('"') for tag in tags.split(","))
