"""Damaged files give a typed error or right rows; they never crash, hang or take memory without bound."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import settings

from formatkit.contract import Split
from formatkit.errors import CorruptFileError, FormatkitError
from formatkit.formats.avro.codecs import CODECS
from support.avro_reading import (
    DECODERS,
    SYNC,
    avro_file,
    container,
    field,
    open_bytes,
    read_batches,
    read_rows,
    record,
    sized,
    varint,
)
from support.damage import damages

NODE = record(field("v", "int"), field("next", ["null", "node"]), name="node")
SCHEMA = record(
    field("id", "long", 1),
    field("text", ["null", "string"], 2),
    field("tags", {"type": "array", "items": ["null", "string"], "element-id": 4}, 3),
    field("counts", {"type": "map", "values": "int", "key-id": 6, "value-id": 7}, 5),
    field("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, 8),
    field("part", ["null", record(field("a", "double", 10), field("b", "boolean", 11), name="part")], 9),
    field("either", ["null", "int", "string"], 12),
    field("chain", NODE, 13),
    field("flag", {"type": "enum", "name": "flag", "symbols": ["up", "down"]}, 14),
)
EXAMPLES = settings().max_examples
WITH_CHECKSUM = ("snappy", "bzip2", "xz")


def row(number: int) -> dict[str, Any]:
    return {
        "id": number * 10**9,
        "text": None if number % 3 == 0 else f"text {number} ä",
        "tags": [None, "x" * number][: number % 3],
        "counts": {f"k{index}": index for index in range(number % 4)},
        "price": b"\x01" * (number % 3 + 1),
        "part": None if number % 4 == 0 else {"a": number / 7, "b": number % 2 == 0},
        "either": [None, number, "s"][number % 3],
        "chain": {"v": 1, "next": {"v": 2, "next": None}},
        "flag": ["up", "down"][number % 2],
    }


def schema_without_logical_types() -> Any:
    fields = [field("price", "bytes", 8) if each["name"] == "price" else each for each in SCHEMA["fields"]]
    return {**SCHEMA, "fields": fields}


def good(codec: str) -> bytes:
    # fastavro would turn bytes of a decimal into numbers; the schema that is stored says what they are.
    plain = avro_file(schema_without_logical_types(), [row(number) for number in range(40)], codec)
    return plain.replace(_header(schema_without_logical_types(), codec), _header(SCHEMA, codec))


def _header(schema: Any, codec: str) -> bytes:
    return container(schema, [], codec)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("codec", CODECS)
def test_damage_anywhere_gives_a_typed_error_or_rows(codec: str, decoder: str) -> None:
    data = good(codec)
    whole = read_rows(data, decoder=decoder)
    body = len(_header(SCHEMA, codec))
    for damage in damages(data, Random(codec), 2 * EXAMPLES):
        try:
            found = read_rows(damage.data, decoder=decoder)
        except FormatkitError:
            continue
        if codec in WITH_CHECKSUM and damage.place >= body:
            # A header of a block is outside of its checksum: whole blocks may be missing where a file is cut.
            assert all(each in whole for each in found), damage.what


def test_both_decoders_judge_damage_alike() -> None:
    data = good("null")
    for damage in damages(data, Random(7), 3 * EXAMPLES):
        assert _judged(damage.data, "compiled") == _judged(damage.data, "interpreted"), damage.what


def _judged(data: bytes, decoder: str) -> str:
    try:
        return repr(read_rows(data, decoder=decoder, batch_rows=5))
    except FormatkitError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_that_is_cut_anywhere_but_between_blocks_is_refused(codec: str) -> None:
    data = good(codec)
    edges = {place + len(SYNC) for place in range(len(data)) if data.startswith(SYNC, place)}
    for length in range(0, len(data), 17):
        if length not in edges:
            with pytest.raises(CorruptFileError, match=r"test\.avro"):
                read_rows(data[:length])


def test_a_changed_marker_is_noticed() -> None:
    data = bytearray(good("null"))
    data[-1] ^= 1
    with pytest.raises(CorruptFileError, match="does not end with the marker"):
        read_rows(bytes(data))


def test_snappy_data_that_decompresses_to_other_bytes_fails_its_checksum() -> None:
    data = bytearray(good("snappy"))
    data[data.index(b"text 1 ")] = ord("T")
    with pytest.raises(CorruptFileError, match="checksum"):
        read_rows(bytes(data))


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("columns", [("id",), ()])
@pytest.mark.parametrize("rows", [2**62, 2**40, -1])
def test_row_counts_that_no_block_can_hold_are_refused(decoder: str, columns: tuple[str, ...], rows: int) -> None:
    header = container(record(field("id", "long")), [])
    data = header + varint(rows) + sized(b"\x02" * 10) + SYNC
    file = open_bytes(data)
    with pytest.raises(CorruptFileError, match="rows"):
        read_batches(file, file.schema.select(*columns), decoder=decoder)


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "null"])
def test_blocks_that_would_grow_beyond_the_limit_are_refused(codec: str) -> None:
    data = avro_file(record(field("s", "string")), [{"s": "a" * 3_000_000}], codec)
    assert len(data) < 200_000
    with pytest.raises(CorruptFileError, match=r"read\.avro\.max-block-bytes"):
        read_rows(data, properties={"read.avro.max-block-bytes": "1000000"})
    assert len(read_rows(data, properties={"read.avro.max-block-bytes": "4000000"})) == 1


@pytest.mark.parametrize("decoder", DECODERS)
def test_chains_of_any_depth_are_passed_over(decoder: str) -> None:
    deep = b"".join(varint(1) + varint(1) for _ in range(100_000))
    data = container(record(field("chain", NODE), field("id", "long")), [deep + varint(1) + varint(0) + varint(5)])
    assert read_rows(data, decoder=decoder) == [{"chain": {"v": 1, "next": None}, "id": 5}]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"{", "not readable JSON"),
        (b"[" * 100_000, "not readable JSON"),
        (b'"nothing"', "does not declare"),
        (b'{"type": "record", "name": "a"}', "without fields"),
        (b'{"type": "record", "fields": []}', "without a name"),
        (b'{"type": "record", "name": "a", "fields": [{"name": "x"}]}', "without name or type"),
        (b'{"type": "fixed", "name": "a", "size": -1}', "does not declare|not know"),
        (b"\xff\xfe", "not readable JSON"),
    ],
)
def test_damaged_schemas_are_refused(text: bytes, what: str) -> None:
    data = b"Obj\x01" + varint(1) + sized(b"avro.schema") + sized(text) + varint(0) + SYNC
    with pytest.raises(CorruptFileError, match=what):
        open_bytes(data)


def test_a_schema_that_grows_with_every_level_is_refused() -> None:
    inner: Any = record(field("a", "int"), name="r0")
    for level in range(1, 40):
        inner = record(field("a", inner), field("b", f"r{level - 1}"), name=f"r{level}")
    with pytest.raises(CorruptFileError, match="more than 30000 columns"):
        open_bytes(container(inner, []))


def test_records_that_hold_each_other_in_every_order_are_refused() -> None:
    names = [f"r{number}" for number in range(14)]

    def declared(number: int) -> Any:
        later = declared(number + 1) if number + 1 < len(names) else "int"
        return record(
            *(field(name, ["null", name]) for name in names[:number]), field("later", later), name=names[number]
        )

    schema = declared(0)
    schema["fields"] += [field(name, ["null", name]) for name in names[1:]]
    with pytest.raises(CorruptFileError, match="more than 30000 columns"):
        open_bytes(container(schema, []))


def test_a_union_that_grows_with_every_level_is_passed_over() -> None:
    inner: Any = record(field("a", "string"), name="r0")
    for level in range(1, 25):
        inner = record(field("a", ["int", "long", inner]), field("b", ["int", f"r{level - 1}"]), name=f"r{level}")
    data = container(
        record(field("x", ["int", "long", inner]), field("id", "long")), [varint(0) + varint(1) + varint(7)]
    )
    assert read_rows(data) == [{"x": None, "id": 7}]


def test_splits_of_a_damaged_file_find_the_damage_once() -> None:
    data = bytearray(good("null"))
    edge = data.index(SYNC, data.index(SYNC) + 1)
    data[edge] ^= 1
    failures = 0
    for start in range(0, len(data), 100):
        try:
            read_batches(open_bytes(bytes(data)), split=Split(start, 100))
        except CorruptFileError:
            failures += 1
    assert failures == 1
