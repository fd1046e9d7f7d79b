"""Blocks of slow codecs are decompressed ahead in threads, of which none is left behind."""

from __future__ import annotations

import threading

import pytest

from formatkit.contract import ReadOptions
from formatkit.errors import CorruptFileError
from support.avro_reading import avro_file, field, open_bytes, read_rows, record

SCHEMA = record(field("id", "long"))
ROWS = [{"id": number} for number in range(60)]


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("formatkit-avro")]


@pytest.mark.parametrize("codec", ["bzip2", "xz"])
def test_closing_a_read_early_ends_its_threads(codec: str) -> None:
    file = open_bytes(avro_file(SCHEMA, ROWS, codec, rows_per_block=5))
    with file.read(ReadOptions(projection=file.schema, batch_rows=7)).batches as batches:
        first = next(batches)
        assert threads()
    assert first.to_pylist() == ROWS[:7]
    assert not threads()


def test_damage_in_a_block_further_on_is_raised_in_its_turn() -> None:
    data = avro_file(SCHEMA, ROWS, "bzip2", rows_per_block=5)
    damaged = bytearray(data)
    damaged[data.rindex(b"BZh") + 12] ^= 1
    file = open_bytes(bytes(damaged))
    batches = file.read(ReadOptions(projection=file.schema, batch_rows=5)).batches
    assert [row for _ in range(11) for row in next(batches).to_pylist()] == ROWS[:55]
    with pytest.raises(CorruptFileError, match="bzip2 data is damaged"):
        next(batches)
    assert not threads()


def test_a_file_of_one_block_needs_no_threads() -> None:
    before = threading.active_count()
    assert read_rows(avro_file(SCHEMA, ROWS, "xz", rows_per_block=100)) == ROWS
    assert threading.active_count() == before
