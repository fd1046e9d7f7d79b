"""Which ranges are fetched together, and the books about what was announced."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from formatkit.contract import ByteRange
from formatkit.io.ranges import Pieces, RangeRules, are_disjoint, coalesce, inside, span, split


def ranges(*pairs: tuple[int, int]) -> list[ByteRange]:
    return [ByteRange(*pair) for pair in pairs]


def test_near_ranges_are_fetched_together() -> None:
    assert coalesce(ranges((0, 10), (15, 10), (40, 5)), 5, 100) == [ranges((0, 10), (15, 10)), ranges((40, 5))]


def test_neighbours_in_the_file_are_found_in_any_order_of_need() -> None:
    assert coalesce(ranges((50, 10), (0, 10), (60, 10)), 0, 100) == [ranges((50, 10), (60, 10)), ranges((0, 10))]


def test_a_group_is_no_larger_than_a_request_should_be() -> None:
    assert coalesce(ranges((0, 60), (60, 60)), 0, 100) == [ranges((0, 60)), ranges((60, 60))]


def test_what_is_needed_much_later_is_not_fetched_along() -> None:
    assert coalesce(ranges((0, 10), (500, 90), (10, 10)), 0, 100)[0] == ranges((0, 10))


def test_large_ranges_are_split() -> None:
    assert split(ByteRange(5, 25), 10) == ranges((5, 10), (15, 10), (25, 5))


def test_few_bytes_are_split_into_smaller_parts_so_that_several_requests_are_under_way() -> None:
    rules = RangeRules(gap_bytes=1 << 20, part_bytes=8 << 20)
    assert [rules.part_bytes_for(total << 20) for total in (1, 16, 64, 1000)] == [1 << 20, 2 << 20, 8 << 20, 8 << 20]


def test_ranges_outside_of_the_file_are_left_out() -> None:
    assert inside(ranges((0, 0), (-1, 5), (90, 11), (90, 10)), 100) == ranges((90, 10))


def test_a_span_covers_all() -> None:
    assert span(ranges((5, 5), (20, 1), (7, 1))) == ByteRange(5, 16)


SMALL_RANGE = st.builds(ByteRange, st.integers(0, 60), st.integers(1, 20))


@given(st.lists(st.tuples(st.booleans(), SMALL_RANGE), max_size=20))
def test_pieces_know_every_byte(steps: list[tuple[bool, ByteRange]]) -> None:
    """The same steps on a dictionary from byte to owner."""
    pieces: Pieces[int] = Pieces()
    model: dict[int, int] = {}
    for owner, (adding, wanted) in enumerate(steps):
        if adding:
            for missing in pieces.missing(wanted):
                pieces.add(missing, owner)
            for byte in range(*_bounds(wanted)):
                model.setdefault(byte, owner)
        else:
            expected = {byte: model.pop(byte) for byte in range(*_bounds(wanted)) if byte in model}
            assert _bytes(pieces.cut(wanted)) == expected
        assert _bytes(pieces.within(ByteRange(0, 100))) == model


def _bounds(one: ByteRange) -> tuple[int, int]:
    return one.offset, one.end


def _bytes(pieces: list[tuple[ByteRange, int]]) -> dict[int, int]:
    return {byte: owner for piece, owner in pieces for byte in range(*_bounds(piece))}


@given(st.lists(SMALL_RANGE, max_size=10), st.lists(SMALL_RANGE, max_size=10), SMALL_RANGE)
def test_pieces_that_are_added_together_are_found_and_removed_one_by_one(
    before: list[ByteRange], announced: list[ByteRange], stranger: ByteRange
) -> None:
    pieces: Pieces[int] = Pieces()
    owners: dict[ByteRange, int] = {}
    for one in before:
        for part in pieces.missing(one):
            pieces.add(part, -1)
            owners[part] = -1
    fresh = [part for one in announced for part in pieces.missing(one)]
    fresh = fresh if are_disjoint(fresh) else fresh[:1]
    pieces.add_all([(part, number) for number, part in enumerate(fresh)])
    owners.update({part: number for number, part in enumerate(fresh)})
    assert pieces.owner_of(stranger) == owners.get(stranger)
    for part, owner in owners.items():
        assert pieces.owner_of(part) == owner
        pieces.remove(part)
        assert pieces.owner_of(part) is None
    assert not pieces
    assert pieces.missing(stranger) == [stranger]


@given(st.lists(SMALL_RANGE, max_size=6))
def test_disjoint_ranges_have_no_byte_in_common(some: list[ByteRange]) -> None:
    named = [byte for one in some for byte in range(*_bounds(one))]
    assert are_disjoint(some) == (len(named) == len(set(named)))


@given(st.lists(SMALL_RANGE, max_size=15), st.integers(0, 5), st.integers(1, 40))
def test_coalescing_loses_and_invents_nothing(announced: list[ByteRange], gap: int, most: int) -> None:
    groups = coalesce(announced, gap, most)
    assert sorted(one for group in groups for one in group) == sorted(announced)
    assert all(span(group).length <= most for group in groups if len(group) > 1)
