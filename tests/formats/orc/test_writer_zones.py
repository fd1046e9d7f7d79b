"""Timestamps without zone of writers that were in some time zone, compared with what pyorc and Java read."""

from __future__ import annotations

import io
import random
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyorc
import pytest

from formatkit.batches.compiled.loading import Payback
from formatkit.errors import UnsupportedError
from formatkit.formats.orc import column_decoding
from support.mutations.orc_file import OrcFile
from support.orc_files import columns_named, open_bytes, pyorc_bytes, read_rows

TYPE = "struct<t:timestamp,i:timestamp with local time zone,s:struct<t:timestamp>,l:array<timestamp>,n:int>"
ZONES = [
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Manila",
    "Asia/Singapore",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Pacific/Apia",
]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instants() -> list[datetime]:
    """Every half an hour around 1970 with parts of a second, changes of offsets, and far years."""
    rng = random.Random(7)
    parts = [timedelta(microseconds=micros) for micros in (0, 1, 999, 1_000, 500_000)]
    near = [EPOCH + timedelta(seconds=1800 * n + s) + part for n in range(-30, 30) for s in (0, -1) for part in parts]
    march, october = datetime(2014, 3, 8, tzinfo=UTC), datetime(2014, 10, 25, tzinfo=UTC)
    changes = [start + timedelta(minutes=15 * n) for start in (march, october) for n in range(300)]
    far = [EPOCH + timedelta(seconds=rng.randrange(-60 * 10**9, 250 * 10**9)) + rng.choice(parts) for _ in range(200)]
    return near + changes + far


def file_of(moments: list[datetime], zone: str = "UTC") -> bytes:
    rows = [(moment, moment, (moment,), [moment, moment], n) for n, moment in enumerate(moments)]
    return pyorc_bytes(TYPE, rows, timezone=ZoneInfo(zone))


def named(data: bytes, zone: str, *, by_java: bool = True) -> bytes:
    """The file with the name of another zone, written by Java for all that can be seen."""
    file = OrcFile(data)
    for stripe in file.stripes:
        stripe.footer["writerTimezone"].value = zone.encode()
    if by_java:
        file.footer["writer"].value = 0
    return file.to_bytes()


def by_pyorc(data: bytes) -> list[dict[str, Any]]:
    rows = pyorc.Reader(io.BytesIO(data), timezone=ZoneInfo("UTC"))
    return [
        {"t": bare(t), "i": i, "s": {"t": bare(s)}, "l": [bare(element) for element in lst], "n": n}
        for t, i, (s,), lst, n in rows
    ]


def bare(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)


@pytest.fixture(params=["compiled", "pyarrow"])
def _decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = -1 if request.param == "compiled" else 1 << 60
    monkeypatch.setattr(column_decoding, "PAYBACK", Payback("formatkit.formats.orc.kernels", limit))


@pytest.mark.usefixtures("_decoder")
@pytest.mark.parametrize("zone", ZONES)
def test_wall_clock_times_are_those_of_the_zone_of_the_writer(zone: str) -> None:
    data = file_of(instants(), zone)
    assert read_rows(open_bytes(data)) == by_pyorc(data)


@pytest.mark.usefixtures("_decoder")
def test_a_second_before_1970_is_told_by_the_instant_and_not_by_the_wall_clock() -> None:
    # It is still 1969 in UTC, so that the stored second was rounded towards 1970.
    moment = datetime(1969, 12, 31, 21, 51, 26, 883_873, tzinfo=UTC)
    data = file_of([moment], "Asia/Shanghai")
    assert read_rows(open_bytes(data))[0]["t"] == datetime(1970, 1, 1, 5, 51, 26, 883_873)


@pytest.mark.usefixtures("_decoder")
@pytest.mark.parametrize(
    ("zone", "hours"),
    [("America/New_York", -5.0), ("Asia/Singapore", 8.0), ("Asia/Kolkata", 5.5), ("Asia/Manila", 8.0)],
)
def test_java_has_the_standard_offset_before_1900(zone: str, hours: float) -> None:
    moments = [datetime(1700, 5, 6, 7, 8, 9, 500_000, tzinfo=UTC), datetime(1899, 12, 31, 23, 59, 59, tzinfo=UTC)]
    data = named(file_of(moments, zone), zone)
    expected = [bare(moment) + timedelta(hours=hours) for moment in moments]
    rows = read_rows(open_bytes(data))
    assert [row["t"] for row in rows] == expected
    assert [row["l"] for row in rows] == [[moment, moment] for moment in expected]


@pytest.mark.parametrize(
    ("zone", "hours"), [("GMT+08:00", 8.0), ("GMT-03:30", -3.5), ("PST", -8.0), ("EST", -5.0), ("Asia/Calcutta", 5.5)]
)
def test_zones_that_only_java_knows_are_known(zone: str, hours: float) -> None:
    moment = datetime(2015, 1, 20, 12, tzinfo=UTC)
    # Seconds are counted from 2015 in the zone, so that the same number is the same wall-clock time in winter.
    summer = datetime(2015, 7, 20, 12, tzinfo=UTC)
    rows = read_rows(open_bytes(named(file_of([moment, summer]), zone)))
    assert [row["t"] for row in rows] == [bare(moment), bare(summer) + timedelta(hours=zone == "PST")]
    assert [row["i"] for row in rows] == [moment, summer]
    near = read_rows(open_bytes(named(file_of([EPOCH + timedelta(seconds=0.5)]), zone)))[0]["t"]
    # What was written as 1970 is before 1970 in UTC if the zone is east of it, and then a second is missing.
    assert near == bare(EPOCH) + timedelta(seconds=0.5 - (hours > 0))


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../../etc/passwd", "America", "GMT+99:00", "\x00"])
@pytest.mark.usefixtures("_decoder")
def test_an_unknown_zone_stops_only_the_columns_that_need_it(zone: str) -> None:
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    file = open_bytes(named(file_of([moment]), zone))
    assert read_rows(file, columns_named(file, "i", "n")) == [{"i": moment, "n": 0}]
    for name in ("t", "s", "l"):
        with pytest.raises(UnsupportedError, match="time zone"):
            read_rows(file, columns_named(file, name))


@pytest.mark.parametrize("zone", ZONES)
def test_filters_compare_wall_clock_times(zone: str) -> None:
    moments = sorted(instants())
    data = file_of(moments, zone)
    file, rows = open_bytes(data), by_pyorc(data)
    rng = random.Random(3)
    for bound in rng.sample([row["t"] for row in rows], 20):
        later = [row["n"] for row in rows if row["t"] >= bound]
        assert [row["n"] for row in read_rows(file, where=f"t >= '{bound.isoformat()}'")] == later
        earlier = [row["n"] for row in rows if row["s"]["t"] < bound]
        assert [row["n"] for row in read_rows(file, where=f"s.t < '{bound.isoformat()}'")] == earlier
