"""What the machine lacks is never called damage of a file."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pyorc
import pytest

from formatkit.batches.arrow.file_reading import decoding
from formatkit.errors import CorruptFileError, OutOfMemoryError, StorageError, UnsupportedError
from formatkit.formats.lance import failures as lance
from formatkit.formats.orc import failures as orc
from formatkit.formats.parquet import failures as parquet
from formatkit.formats.parquet.polars.decoding import decoding_by_polars
from formatkit.formats.vortex import failures as vortex
from formatkit.formats.vortex.source_reads import SourceReads
from formatkit.io import MemorySource

Reading = Callable[[], AbstractContextManager[None]]


class _Reads(SourceReads):
    def __init__(self) -> None:
        self._source = MemorySource(b"")
        self.location = "file"
        self.failure = None


READERS: dict[str, Reading] = {
    "parquet": lambda: parquet.reading("file"),
    "orc": lambda: orc.reading("file"),
    "lance": lambda: lance.reading("file"),
    "vortex": lambda: vortex.reading(_Reads()),
    "arrow": lambda: decoding("file", "Arrow"),
}
each_reader = pytest.mark.parametrize("reading", READERS.values(), ids=READERS.keys())


@each_reader
def test_broken_bytes_are_damage(reading: Reading) -> None:
    with pytest.raises(CorruptFileError, match=r"file: .* there is no such page"), reading():
        raise pa.ArrowInvalid("there is no such page")


@each_reader
@pytest.mark.parametrize("message", ["std::bad_alloc", "Cannot allocate memory (os error 12)"])
def test_a_lack_of_memory_is_none(reading: Reading, message: str) -> None:
    with pytest.raises(OutOfMemoryError), reading():
        raise pa.ArrowException(message)


@each_reader
def test_a_missing_time_zone_is_none(reading: Reading) -> None:
    message = "Unknown error: Time zone file /usr/share/zoneinfo/Mars does not exist."
    with pytest.raises(UnsupportedError, match=r"this machine lacks a time zone: .*Mars .* install tzdata"), reading():
        raise pa.ArrowException(message)


@each_reader
@pytest.mark.parametrize("spelled", ["Too many open files (os error {})", "Os {{ code: {}, kind: Uncategorized }}"])
def test_what_the_system_refuses_is_none(reading: Reading, spelled: str) -> None:
    with pytest.raises(StorageError, match="file: the system refused: "), reading():
        raise pa.ArrowException(spelled.format(errno.EMFILE))


@each_reader
def test_a_failure_of_the_storage_stays_one(reading: Reading) -> None:
    with pytest.raises(PermissionError), reading():
        raise PermissionError(errno.EACCES, "Permission denied")


@each_reader
def test_a_cancelled_read_stays_one(reading: Reading) -> None:
    with pytest.raises(pa.ArrowCancelled), reading():
        raise pa.ArrowCancelled("Operation cancelled")
    with pytest.raises(asyncio.CancelledError), reading():
        raise asyncio.CancelledError


@each_reader
def test_a_package_that_cannot_be_imported_stays_one(reading: Reading) -> None:
    with pytest.raises(ImportError), reading():
        raise ImportError("no module named zstd")


def test_orc_files_of_other_zones_need_no_zone_files_of_the_c_library(tmp_path: Path) -> None:
    content = io.BytesIO()
    zone = ZoneInfo("America/New_York")
    with pyorc.Writer(content, pyorc.Struct(ts=pyorc.Timestamp()), timezone=zone) as writer:
        writer.write((datetime(2020, 1, 1, tzinfo=zone),))
    path = tmp_path / "zone.orc"
    path.write_bytes(content.getvalue())
    program = "import sys, formatkit; print(formatkit.read_file(sys.argv[1]).to_arrow()['ts'][0])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env=os.environ | {"TZDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout == "2020-01-01 00:00:00\n"


def test_panics_of_polars_are_damage_unless_the_system_is_the_cause() -> None:
    with pytest.raises(CorruptFileError), decoding_by_polars("file"):
        raise pl.exceptions.ComputeError("parquet: File out of specification")
    with pytest.raises(StorageError), decoding_by_polars("file"):
        raise pl.exceptions.PanicException("failed to spawn thread: Os { code: 11, kind: WouldBlock }")
    with pytest.raises(PermissionError), decoding_by_polars("file"):
        raise PermissionError(errno.EACCES, "Permission denied")
