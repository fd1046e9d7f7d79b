"""Lengths and scales that pyarrow would trust are looked at before it does, and found to be what was written."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatkit.contract import ByteRange
from formatkit.errors import CorruptFileError, InvalidDataError
from formatkit.formats.orc.compression import Codec, decompress, frame
from formatkit.formats.orc.run_limits import Limits, limits_of
from formatkit.formats.orc.stripes import StreamKind, read_stripe_footer
from formatkit.formats.orc.tail import read_tail
from formatkit.io import MemorySource
from support.mutations.orc_file import OrcFile
from support.mutations.tree import walk
from support.orc_files import foreign, open_bytes, read_rows

FIRST_VERSION, SECOND_VERSION = "0.11", "0.12"


def uncompressed(column: Any, version: str = SECOND_VERSION, dictionary: float = 0.0) -> bytes:
    options = {"compression": "uncompressed", "file_version": version, "dictionary_key_size_threshold": dictionary}
    return foreign(pa.table({"c": column}), **options)


def stream_of(data: bytes, kind: StreamKind, column: int = 1) -> ByteRange:
    source = MemorySource(data)
    tail = read_tail(source)
    footer = read_stripe_footer(source, tail, tail.stripes[0])
    return next(stream.range for stream in footer.streams if (stream.kind, stream.column) == (kind, column))


def content_of(data: bytes, kind: StreamKind) -> memoryview:
    place = stream_of(data, kind)
    return memoryview(data)[place.offset : place.end]


def overwritten(data: bytes, place: int, content: bytes) -> bytes:
    return data[:place] + content + data[place + len(content) :]


def limits_in(values: Sequence[int]) -> Limits:
    return Limits(len(values), min(0, *values), max(0, *values), sum(values))


@st.composite
def in_runs(draw: st.DrawFn, values: st.SearchStrategy[int], steps: st.SearchStrategy[int]) -> list[int]:
    """Numbers that make encoders use all kinds of runs: equal ones, rising and falling ones, wild ones, outliers."""
    found: list[int] = []
    for kind in draw(st.lists(st.sampled_from(["same", "even", "rising", "any", "outliers"]), min_size=1, max_size=8)):
        value, count = draw(values), draw(st.integers(1, 700))
        random = Random(draw(st.integers(0, 2**32)))
        step = draw(steps)
        match kind:
            case "same":
                found += [value] * count
            case "even":
                found += [value + place * step for place in range(count)]
            case "rising":
                found += accumulate((random.randint(0, abs(step)) for _ in range(count)), initial=value)
            case "any":
                found += [random.randint(0, abs(value)) for _ in range(count)]
            case "outliers":
                found += [abs(value) if random.random() < 0.05 else random.randint(0, 9) for _ in range(count)]
    return found


@settings(deadline=None)
@given(
    numbers=in_runs(st.integers(-(2**40), 2**40) | st.integers(-3, 60), st.integers(-70, 70)),
    version=st.sampled_from([FIRST_VERSION, SECOND_VERSION]),
)
def test_the_limits_of_signed_numbers_are_found(numbers: list[int], version: str) -> None:
    content = content_of(uncompressed(pa.array(numbers), version), StreamKind.DATA)
    first_version, right = version == FIRST_VERSION, limits_in(numbers)
    assert limits_of(content, first_version=first_version, signed=True, exact=True) == right
    rough = limits_of(content, first_version=first_version, signed=True, exact=False)
    assert rough.values == right.values
    assert rough.lowest <= right.lowest
    assert rough.highest >= right.highest


@settings(deadline=None)
@given(
    lengths=in_runs(st.integers(0, 300), st.integers(0, 2)), version=st.sampled_from([FIRST_VERSION, SECOND_VERSION])
)
def test_the_limits_of_lengths_are_found(lengths: list[int], version: str) -> None:
    content = content_of(uncompressed(pa.array(["x" * length for length in lengths]), version), StreamKind.LENGTH)
    first_version, right = version == FIRST_VERSION, limits_in(lengths)
    assert limits_of(content, first_version=first_version, signed=False, exact=True) == right
    rough = limits_of(content, first_version=first_version, signed=False, exact=False)
    assert (rough.values, rough.lowest) == (right.values, 0)
    assert rough.total >= right.total


@pytest.mark.parametrize("longest", [1, 3, 14, 40], ids="repeated up to {} times".format)
@pytest.mark.parametrize("places", [[], [0], [3000], [5999], [1000, 4000]], ids=str)
def test_it_is_seen_without_looking_at_all_values_whether_any_is_below_zero(longest: int, places: list[int]) -> None:
    random = Random(4)
    scales = [scale for _ in range(6000) for scale in [random.choice([0, 2, 9, 10, 38])] * random.randint(1, longest)]
    for place in places:
        scales[place] = -1
    content = content_of(uncompressed(pa.array(scales)), StreamKind.DATA)
    rough = limits_of(content, first_version=False, signed=True, exact=False)
    assert rough.values == len(scales)
    assert (rough.lowest < 0) == bool(places)
    assert rough.highest < 1000


def test_many_short_runs_are_walked_over_at_once_and_one_by_one_alike() -> None:
    random = Random(5)
    lengths = [length for _ in range(9000) for length in [random.choice([1, 7, 14, 15, 300])] * random.randint(1, 14)]
    content = content_of(uncompressed(pa.array(["x" * length for length in lengths])), StreamKind.LENGTH)
    rough = limits_of(content, first_version=False, signed=False, exact=False)
    assert rough.values == len(lengths)
    assert rough.lowest == 0
    assert rough.total >= sum(lengths)
    for end in random.sample(range(len(content)), 50):
        cut = limits_of(content[:end], first_version=False, signed=False, exact=False)
        exact = limits_of(content[:end], first_version=False, signed=False, exact=True)
        assert cut.values == exact.values


def test_the_values_of_a_run_of_the_first_version_count_even_if_it_is_cut_off() -> None:
    two_of_three = memoryview(b"\xfd\x07\x80\x01")
    assert limits_of(two_of_three, first_version=True, signed=False, exact=True) == limits_in([7, 128])


def test_a_scale_that_is_none_is_corrupt() -> None:
    data = uncompressed(pa.array([Decimal("1.5"), Decimal("2.5"), Decimal("3.5")], pa.decimal128(38, 10)))
    scales = stream_of(data, StreamKind.SECONDARY)
    assert data[scales.offset : scales.end] == b"\x00\x14"
    with pytest.raises(CorruptFileError, match="scales from -1"):
        read_rows(open_bytes(overwritten(data, scales.offset + 1, b"\x01")))


WILD = b"\x7e\x0b" + b"\xf0" + bytes(95)
"""A run of twelve values of 64 bits, the first of which is the highest."""


def wild_lengths(column: Any) -> bytes:
    data = uncompressed(column)
    return overwritten(data, stream_of(data, StreamKind.LENGTH).offset, WILD)


def test_lengths_of_texts_that_are_too_large_are_corrupt() -> None:
    random = Random(3)
    texts = pa.array(["x" * random.randint(100, 250) for _ in range(200)])
    with pytest.raises(CorruptFileError, match="texts ask for"):
        read_rows(open_bytes(wild_lengths(texts)))


def test_lengths_of_lists_that_are_too_large_are_corrupt() -> None:
    random = Random(3)
    lists = pa.array([list(range(random.randint(100, 250))) for _ in range(200)])
    with pytest.raises(CorruptFileError, match="lists ask for"):
        read_rows(open_bytes(wild_lengths(lists)))


def test_a_length_below_zero_is_corrupt() -> None:
    data = uncompressed(pa.array(["x" * length for length in range(100)]))
    lengths = stream_of(data, StreamKind.LENGTH)
    assert data[lengths.offset : lengths.end] == b"\xc0\x63\x00\x02"
    with pytest.raises(CorruptFileError, match="the shortest for -99"):
        read_rows(open_bytes(overwritten(data, lengths.end - 1, b"\x01")))


def test_a_dictionary_that_claims_more_entries_than_it_has_is_corrupt() -> None:
    data = uncompressed(pa.array(["a", "b", "c"] * 50), dictionary=1.0)
    # The encoding is a dictionary of the second version with three entries.
    assert data.count(b"\x08\x03\x10\x03") == 1
    with pytest.raises(CorruptFileError, match="claims 127 entries and has 3"):
        read_rows(open_bytes(data.replace(b"\x08\x03\x10\x03", b"\x08\x03\x10\x7f")))


@pytest.mark.parametrize("codec", [Codec.ZLIB, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("header", [b"\x00\x00\x00", b"\x01\x00\x00"], ids=["compressed", "as it is"])
def test_an_empty_chunk_holds_nothing(codec: Codec, header: bytes) -> None:
    content = frame(b"some content", codec, 1 << 16)
    assert decompress(memoryview(header + content + header), codec, 1 << 16) == b"some content"


def too_many_digits() -> bytes:
    data = uncompressed(pa.array([Decimal(999)], pa.decimal128(3, 0)))
    digits = stream_of(data, StreamKind.DATA)
    assert data[digits.offset : digits.end] == b"\xce\x0f"
    return overwritten(data, digits.end - 1, b"\x7f")


@pytest.mark.parametrize("where", [None, "c = 999", "c < 5", "c > 5"])
def test_a_decimal_with_more_digits_than_its_type_is_never_returned_or_compared(where: str | None) -> None:
    file = open_bytes(without_statistics(too_many_digits()))
    with pytest.raises(InvalidDataError, match=r"'c' holds a decimal of more digits than decimal\(3, 0\) has: 8167"):
        read_rows(file, where=where)


@pytest.mark.parametrize("nested", [False, True])
def test_a_decimal_with_more_decimal_places_than_its_type_is_never_cut(nested: bool) -> None:
    kind = pa.decimal128(9, 3)
    column = pa.array([[Decimal("1.235")]], pa.list_(kind)) if nested else pa.array([Decimal("1.235")], kind)
    file = OrcFile(uncompressed(column))
    next(node for _, node, _ in walk(file.footer) if (node.key, node.value) == ("scale", 3)).value = 2
    with pytest.raises(InvalidDataError, match=r"decimal\(9, 2\) holds decimals of 3 decimal places"):
        read_rows(open_bytes(file.to_bytes()))


def without_statistics(data: bytes) -> bytes:
    file = OrcFile(data)
    file.metadata.value = []
    return file.to_bytes()
