from __future__ import annotations

import struct

import pytest

from formatkit.formats.arrow.flatbuffer import FlatbufferError, Table

PAIR = struct.Struct("<hh")
# The root's offset; slots (8 bytes of slots, 12 of table; field 0 at 4, field 1 at 8); the table; a vector of structs.
WHOLE = struct.pack("<IHHHHi i I I hhhh", 12, 8, 12, 4, 8, 8, -7, 4, 2, 1, 2, 3, 4)


def test_numbers_and_vectors_are_found_by_their_field() -> None:
    table = Table.root(memoryview(WHOLE))
    assert table.number(0, "i") == -7
    assert list(table.structs(1, PAIR)) == [(1, 2), (3, 4)]


def test_absent_fields_have_their_default() -> None:
    table = Table.root(memoryview(WHOLE))
    assert table.number(5, "q", default=9) == 9
    assert list(table.structs(5, PAIR)) == []
    with pytest.raises(FlatbufferError, match="field 5 is absent"):
        table.table(5)


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_bytes_that_end_too_early_are_no_table(length: int) -> None:
    with pytest.raises(FlatbufferError):
        list(Table.root(memoryview(WHOLE)[:length]).structs(1, PAIR))


def test_an_offset_before_the_beginning_does_not_count_from_the_end() -> None:
    backwards = WHOLE[:12] + struct.pack("<i", 12 + 16) + WHOLE[16:]
    with pytest.raises(FlatbufferError, match="byte -16"):
        Table.root(memoryview(backwards))
