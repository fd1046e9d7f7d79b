"""Memory is used again, but never by two at once, and not all of it is kept."""

from __future__ import annotations

import pytest

from formatkit.formats.parquet import rooms
from formatkit.formats.parquet.rooms import Room

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def nothing_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "_spare", {size: [] for size in rooms._spare})


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, MEGABYTE, MEGABYTE + 1, 4 * MEGABYTE, 4 * MEGABYTE + 1])
def test_there_is_as_much_room_as_was_asked_for(size: int) -> None:
    assert len(Room(size)) >= size


def test_memory_is_given_to_the_next_one_when_nobody_refers_to_it() -> None:
    first, second = Room(MEGABYTE), Room(MEGABYTE)
    assert first.address != second.address
    place = first.address
    del first
    assert Room(MEGABYTE - 5).address == place


def test_only_some_memory_is_kept() -> None:
    many = [Room(MEGABYTE) for _ in range(100)] + [Room(5 * MEGABYTE)]
    many.clear()
    assert sum(size * len(kept) for size, kept in rooms._spare.items()) == 16 * MEGABYTE
