from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formatkit.formats.parquet.thrift import (
    Field,
    ThriftError,
    binaries,
    binary,
    decode_struct,
    encode,
    encode_part,
    find_field,
    i32,
    i32s,
    i64,
    list_of,
    nested,
    without_fields,
)

NUMBERS = st.integers(min_value=-(2**63), max_value=2**63 - 1)


@given(st.dictionaries(st.integers(1, 300), NUMBERS, max_size=20))
def test_numbers_of_any_field_come_back(values: dict[int, int]) -> None:
    encoded = encode(*(i64(number, values[number]) for number in sorted(values)))
    assert decode_struct(encoded) == (values, len(encoded))


@given(st.lists(st.binary(max_size=200), max_size=40), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40))
def test_lists_of_any_length_come_back(strings: list[bytes], numbers: list[int]) -> None:
    encoded = encode(binaries(1, strings), i32s(2, numbers), list_of(3, [encode(i32(1, n)) for n in numbers]))
    assert decode_struct(encoded)[0] == {1: strings, 2: numbers, 3: [{1: n} for n in numbers]}


def test_structs_nest() -> None:
    encoded = encode(nested(1, binary(5, b"deep"), nested(6)), i32(2, -1))
    assert decode_struct(encoded)[0] == {1: {5: b"deep", 6: {}}, 2: -1}


def test_booleans_stand_in_headers_and_in_lists() -> None:
    list_of_booleans = Field(3, 9, bytes([3 << 4 | 1, 1, 2, 1]))
    assert decode_struct(encode(Field(1, 1, b""), Field(2, 2, b""), list_of_booleans))[0] == {
        1: True,
        2: False,
        3: [True, False, True],
    }


def test_bytes_and_doubles_are_understood() -> None:
    encoded = encode(Field(1, 3, b"\xff"), Field(2, 7, b"\x00\x00\x00\x00\x00\x00\xf8\x3f"))
    assert decode_struct(encoded)[0] == {1: -1, 2: 1.5}


def test_decoding_can_begin_in_the_middle_of_a_struct() -> None:
    encoded = encode(i32(1, 7), binary(4, b"x"), i64(6, 9))
    at = encoded.index(encode_part(i64(6, 9), after=4))
    assert decode_struct(encoded, at, after=4) == ({6: 9}, len(encoded))


def test_a_field_is_found_as_it_stands() -> None:
    wanted = list_of(2, [encode(i32(1, 1)), encode(binary(3, b"name"))])
    assert find_field(encode(i32(1, 1), wanted, i64(3, 5)), 2) == wanted


@given(st.binary(max_size=300))
def test_no_bytes_do_more_harm_than_an_error(data: bytes) -> None:
    for decode in (decode_struct, lambda data: find_field(data, 4)):
        try:
            decode(data)
        except ThriftError:
            continue


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x15", id="a header without its value"),
        pytest.param(b"\x15" + b"\xff" * 5000 + b"\x01\x00", id="a number without end"),
        pytest.param(b"\x18\xff\xff\xff\x7fabc\x00", id="a string longer than the data"),
        pytest.param(b"\x19\xf1\xff\xff\xff\xff\xff\x07\x01\x00", id="a list longer than the data"),
        pytest.param(b"\x1c" * 100_000, id="structs without end"),
        pytest.param(b"\x19\x19" * 100_000, id="lists without end"),
        pytest.param(b"\x1d\x00", id="a type that does not exist"),
    ],
)
def test_damage_is_an_error(data: bytes) -> None:
    with pytest.raises(ThriftError):
        decode_struct(data)


def test_fields_are_left_out_at_any_depth() -> None:
    inner = [encode(i64(1, 7), nested(3, i64(12, 1), i64(13, 2))), encode(i64(1, 8))]
    data = encode(i32(1, 5), list_of(4, inner), binary(6, b"writer"), i64(40, 9))
    found, _ = decode_struct(without_fields(data, {4: {3: {12: {}}}, 6: {}}))
    assert found == {1: 5, 4: [{1: 7, 3: {13: 2}}, {1: 8}], 40: 9}


@pytest.mark.parametrize("data", [b"", b"\x15", b"\x19\x3c\x15", b"\x1c" * 10])
def test_fields_of_what_is_cut_off_cannot_be_left_out(data: bytes) -> None:
    with pytest.raises(ThriftError):
        without_fields(data, {1: {1: {}}})


def test_numbers_of_fields_may_descend() -> None:
    data = b"\x55\x02\x05\x04\x06\x00"
    assert decode_struct(without_fields(data, {9: {}}))[0] == decode_struct(data)[0] == {5: 1, 2: 3}
