"""What is fetched together, and where in the room each range lies."""

from __future__ import annotations

from formatkit.contract import ByteRange
from formatkit.io.fetch import fetches_for


def groups(*lengths: int) -> list[list[ByteRange]]:
    """Groups of one range each, far from one another."""
    return [[ByteRange(1000 * number, length)] for number, length in enumerate(lengths)]


def test_small_ranges_share_a_fetch_and_large_ones_have_their_own() -> None:
    fetches, _ = fetches_for(groups(10, 20, 500, 5, 5), 100, 200)
    assert [[run.wanted.length for run in fetch.runs] for fetch in fetches] == [[10, 20], [500], [5, 5]]


def test_a_storage_that_reads_one_range_at_a_time_gets_a_fetch_for_each() -> None:
    fetches, _ = fetches_for(groups(10, 20, 30), 0, 200)
    assert [[run.wanted.length for run in fetch.runs] for fetch in fetches] == [[10], [20], [30]]


def test_a_fetch_has_no_more_ranges_than_a_ring_has_places() -> None:
    fetches, places = fetches_for(groups(*[1] * 600), 1 << 20, 1 << 20)
    assert [len(fetch.runs) for fetch in fetches] == [256, 256, 88]
    assert len(places) == 600


def test_gaps_are_fetched_along_but_nobody_has_to_take_them() -> None:
    (fetch,), places = fetches_for([[ByteRange(0, 10), ByteRange(15, 10)], [ByteRange(90, 5)]], 100, 200)
    assert (fetch.length, fetch.announced, fetch.untaken) == (30, 25, 25)
    assert [run.wanted for _, run in places] == [ByteRange(0, 25), ByteRange(0, 25), ByteRange(90, 5)]


def test_ranges_lie_one_behind_the_other_in_the_room() -> None:
    (fetch,), places = fetches_for(groups(10, 20, 30), 100, 200)
    ranges, room, _ = fetch.make_room()
    room[:] = bytes(range(60))
    assert list(ranges) == [one for one, _ in places]
    assert [bytes(run.view(one)) for one, run in places] == [
        bytes(range(*ends)) for ends in ((0, 10), (10, 30), (30, 60))
    ]
    second, run = places[1]
    assert bytes(run.view(ByteRange(second.offset + 3, 4))) == bytes([13, 14, 15, 16])
