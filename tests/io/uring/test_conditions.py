"""Conditional reads: what HTTP says about tags and times, for local files."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from formatkit.contract import ByteRange
from formatkit.errors import ConfigurationError, NotModifiedError, PreconditionFailedError, StorageError
from formatkit.io.uring import ReadConditions, UringFile, UringReader, etag_of
from formatkit.io.uring.ring import Completions, Ring

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BEFORE, AFTER = NOW - timedelta(microseconds=1), NOW + timedelta(microseconds=1)
OURS = "<the tag of the file>"


@pytest.fixture
def dated(path: Path) -> Path:
    os.utime(path, (NOW.timestamp(), NOW.timestamp()))
    return path


def conditions(path: Path, **given: Any) -> ReadConditions:
    tag = etag_of(path.stat())
    for name, value in given.items():
        if isinstance(value, str):
            given[name] = value.replace(OURS, tag)
    return ReadConditions(**given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"if_match": OURS},
        {"if_match": "*"},
        {"if_match": f'"other", "{OURS}"'},
        {"if_none_match": "other"},
        {"if_modified_since": BEFORE},
        {"if_unmodified_since": NOW},
        {"if_unmodified_since": AFTER},
        {"if_match": OURS, "if_unmodified_since": BEFORE},
        {"if_none_match": "other", "if_modified_since": AFTER},
        {"if_match": OURS, "if_none_match": "other"},
    ],
    ids=str,
)
def test_what_is_asked_for_is_read(reader: UringReader, dated: Path, content: bytes, given: dict[str, Any]) -> None:
    (buffer,) = reader.read_ranges(dated, [ByteRange(5, 10)], conditions=conditions(dated, **given))
    assert buffer.to_pybytes() == content[5:15]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"if_match": "other"}, PreconditionFailedError),
        ({"if_match": "other, another"}, PreconditionFailedError),
        ({"if_unmodified_since": BEFORE}, PreconditionFailedError),
        ({"if_match": "other", "if_none_match": OURS}, PreconditionFailedError),
        ({"if_match": "other", "if_unmodified_since": AFTER}, PreconditionFailedError),
        ({"if_none_match": OURS}, NotModifiedError),
        ({"if_none_match": "*"}, NotModifiedError),
        ({"if_none_match": f"other, {OURS}"}, NotModifiedError),
        ({"if_modified_since": NOW}, NotModifiedError),
        ({"if_modified_since": AFTER}, NotModifiedError),
        ({"if_none_match": OURS, "if_modified_since": BEFORE}, NotModifiedError),
    ],
    ids=str,
)
def test_what_is_not_asked_for_is_not_read(
    reader: UringReader, dated: Path, given: dict[str, Any], error: type[StorageError]
) -> None:
    with pytest.raises(error, match=str(dated)) as caught:
        reader.read_ranges(dated, [ByteRange(5, 10)], conditions=conditions(dated, **given))
    assert caught.value.etag == etag_of(dated.stat())  # type: ignore[attr-defined]


def test_every_change_of_a_file_changes_its_tag(path: Path) -> None:
    tags = {etag_of(path.stat())}
    os.utime(path, ns=(1, 1))
    tags.add(etag_of(path.stat()))
    os.truncate(path, 100)
    os.utime(path, ns=(1, 1))
    tags.add(etag_of(path.stat()))
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(1, 1))
    other.replace(path)
    tags.add(etag_of(path.stat()))
    assert len(tags) == 4


def test_a_file_that_changes_while_it_is_read_does_not_match(path: Path) -> None:
    class Meddling(Ring):
        def drain(self) -> Completions:
            os.utime(path, ns=(5, 5))
            return super().drain()

    with UringFile(path) as file, UringReader(ring_type=Meddling) as reader:
        os.utime(path, ns=(4, 4))
        tag = etag_of(file.status())
        with pytest.raises(PreconditionFailedError, match=tag):
            reader.read_ranges(path, [ByteRange(0, 10)], conditions=ReadConditions(if_match=tag))


def test_times_without_a_time_zone_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="if_modified_since"):
        ReadConditions(if_modified_since=datetime(2026, 1, 1))
