"""The schema of a file as Iceberg sees it: ids, names, nesting, and what has no Iceberg type."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import (
    BinaryType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

import formatkit
from formatkit.contract import POS
from formatkit.contract.variant import VariantType
from formatkit.errors import ColumnNotFoundError, ConfigurationError, UnsupportedError
from formatkit.formats.avro.codecs import compress
from support.avro_reading import (
    DECODERS,
    avro_file,
    container,
    field,
    open_bytes,
    read_batches,
    read_rows,
    record,
    varint,
)

NESTED = record(
    field("id", "long", 1),
    field("tags", ["null", {"type": "array", "items": ["null", "string"], "element-id": 3}], 2),
    field("counts", {"type": "map", "values": "long", "key-id": 5, "value-id": 6}, 4),
    field(
        "pairs",
        {
            "type": "array",
            "logicalType": "map",
            "items": record(field("key", "int", 8), field("value", ["null", "string"], 9), name="k8_v9"),
        },
        7,
    ),
    field("place", ["null", record(field("x", "int", 11), field("y", ["null", "int"], 12), name="r10")], 10),
)


def test_ids_are_found_at_every_level() -> None:
    assert open_bytes(container(NESTED, [])).schema == Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "tags", ListType(3, StringType(), element_required=False), required=False),
        NestedField(4, "counts", MapType(5, StringType(), 6, LongType(), value_required=True), required=True),
        NestedField(7, "pairs", MapType(8, IntegerType(), 9, StringType(), value_required=False), required=True),
        NestedField(
            10,
            "place",
            StructType(
                NestedField(11, "x", IntegerType(), required=True), NestedField(12, "y", IntegerType(), required=False)
            ),
            required=False,
        ),
    )


def test_maps_stored_as_arrays_are_maps() -> None:
    row = {"id": 1, "tags": None, "counts": {"a": 2}, "pairs": [{"key": 3, "value": None}, {"key": 4, "value": "b"}]}
    (found,) = read_rows(avro_file(NESTED, [{**row, "place": None}]))
    assert found["pairs"] == [(3, None), (4, "b")]
    assert found["counts"] == [("a", 2)]


def test_an_array_of_pairs_without_the_logical_type_is_a_list() -> None:
    items = record(field("key", "int"), field("value", "int"), name="pair")
    schema = open_bytes(container(record(field("x", {"type": "array", "items": items})), [])).schema
    assert isinstance(schema.find_field("x").field_type, ListType)


def test_ids_that_a_file_lacks_are_negative_and_unique() -> None:
    bare = json.loads(json.dumps(NESTED).replace("-id", "-none"))
    schema = open_bytes(container(bare, [])).schema
    ids = sorted(index_by_id(schema))
    assert ids == list(range(-12, 0))


@pytest.mark.parametrize(
    ("stored", "found"), [(7, 7), ("70", 70), ("x", -1), (True, -1), (-3, -1), (1.5, -1), (2**40, -1)]
)
def test_ids_may_be_numbers_or_digits(stored: Any, found: int) -> None:
    schema = open_bytes(container(record(field("x", "int", stored)), [])).schema
    assert [each.field_id for each in schema.fields] == [found]


def test_a_file_that_stores_an_id_twice_has_no_ids() -> None:
    data = container(record(field("a", "int", 1), field("b", "int", 1), field("c", "int", 2)), [b"\x02\x04\x06"])
    assert [each.field_id for each in open_bytes(data).schema.fields] == [-1, -2, -3]
    assert formatkit.read_file(data).to_arrow().to_pylist() == [{"a": 1, "b": 2, "c": 3}]


def test_names_that_avro_does_not_allow_are_restored() -> None:
    stored = field("_x31_x2Db", "int", 1, **{"iceberg-field-name": "1-b"})
    data = container(record(stored), [varint(4)])
    assert read_rows(data) == [{"1-b": 4}]


def test_a_name_that_two_fields_claim_is_numbered() -> None:
    other = field("b", "int", 2, **{"iceberg-field-name": "a"})
    assert read_rows(container(record(field("a", "int", 1), other), [varint(1) + varint(2)])) == [{"a": 1, "a#2": 2}]


def test_named_types_are_found_in_their_namespaces() -> None:
    inner = {"type": "fixed", "name": "digest", "size": 2}
    outer = record(
        field("a", inner),
        field("b", "digest"),
        field("c", "org.example.digest"),
        field("d", {"type": "fixed", "name": "digest", "namespace": "org.other", "size": 1}),
        field("e", "org.other.digest"),
        field("f", "digest"),
        namespace="org.example",
    )
    data = container(outer, [b"aabbccdeff"])
    assert read_rows(data) == [{"a": b"aa", "b": b"bb", "c": b"cc", "d": b"d", "e": b"e", "f": b"ff"}]


UNREADABLE: list[tuple[Any, bytes, str]] = [
    (["null", "int", "null"], varint(1) + varint(9), "a union of (null, int, null), which Avro does not allow"),
    (["int", ["null", "long"]], varint(0) + varint(9), "a union holds another union"),
    ({"type": "fixed", "name": "z", "size": 0}, b"", "no fixed of 0 bytes"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 39}, varint(1) + b"x", "no decimal of 39 digits"),
    ({"type": "array", "items": ["int", "null", "null"]}, b"\x00", "its elements are unreadable"),
    ({"type": "map", "values": ["int", "null", "null"]}, b"\x00", "its keys or values are unreadable"),
    ({"type": "fixed", "name": "w", "size": 2**31 - 1}, b"", "wider than"),
    (
        {"type": "array", "logicalType": "map", "items": record(field("key", "null"), field("value", "int"), name="e")},
        b"\x00",
        "the keys of a map are always null",
    ),
]


@pytest.mark.parametrize(("stored", "encoded", "reason"), UNREADABLE)
def test_what_iceberg_has_no_type_for_is_reported_and_read_around(stored: Any, encoded: bytes, reason: str) -> None:
    schema = record(
        field("a", "int", 1), field("x", ["null", stored] if encoded == b"" else stored, 2), field("z", "int", 3)
    )
    row = varint(1) + (varint(0) if encoded == b"" else encoded) + varint(2)
    if isinstance(stored, list):
        schema["fields"][1]["type"] = stored
    data = container(schema, [row] * 3)
    file = open_bytes(data)
    assert reason in file.unreadable[2]
    assert read_rows(data) == [{"a": 1, "x": None, "z": 2}] * 3


@pytest.mark.parametrize("optional", [False, True])
def test_a_record_without_fields_is_null_as_the_partition_in_manifests_of_tables_that_have_none(optional: bool) -> None:
    nothing = record(name="nothing")
    schema = record(
        field("a", "int", 1), field("x", ["null", nothing] if optional else nothing, 2), field("z", "int", 3)
    )
    rows = [varint(1) + (varint(branch) if optional else b"") + varint(2) for branch in (0, 1)]
    data = container(schema, rows)
    assert not open_bytes(data).unreadable
    assert read_rows(data) == [{"a": 1, "x": None, "z": 2}] * 2


def test_a_record_that_holds_itself_is_read_up_to_there() -> None:
    node = record(field("v", "int", 2), field("next", ["null", "node"], 3), name="node")
    rows = [{"n": {"v": 1, "next": {"v": 2, "next": None}}, "id": 5}]
    data = avro_file(record(field("n", node, 1), field("id", "long", 4)), rows)
    assert open_bytes(data).unreadable == {3: "the record 'node' holds itself"}
    assert read_rows(data) == [{"n": {"v": 1, "next": None}, "id": 5}]


def test_variants_are_recognised_by_their_logical_type() -> None:
    stored = record(field("metadata", "bytes"), field("value", "bytes"), name="v", logicalType="variant")
    data = avro_file(record(field("v", ["null", stored], 1)), [{"v": None}, {"v": {"metadata": b"m", "value": b"v"}}])
    assert open_bytes(data).schema.find_type(1) == VariantType()
    assert read_rows(data) == [{"v": None}, {"v": {"metadata": b"m", "value": b"v"}}]


def test_spatial_types_come_from_the_iceberg_schema_in_the_header() -> None:
    places = {"type": "list", "element-id": 3, "element": "geography", "element-required": True}
    fields = [
        {"id": 1, "name": "g", "type": "geometry", "required": True},
        {"id": 2, "name": "p", "type": places, "required": True},
        {"id": 4, "name": "b", "type": "binary", "required": True},
    ]
    stored = record(
        field("g", "bytes", 1),
        field("p", {"type": "array", "items": "bytes", "element-id": 3}, 2),
        field("b", "bytes", 4),
    )
    schema = open_bytes(
        container(stored, [], metadata={"iceberg.schema": json.dumps({"type": "struct", "fields": fields})})
    ).schema
    assert [schema.find_type(number) for number in (1, 3, 4)] == [GeometryType(), GeographyType(), BinaryType()]


@pytest.mark.parametrize(
    "noted", ["{", "[]", '{"fields": [1, {"id": 1}]}', '{"fields": [{"id": 1, "type": "geometry(("}]}']
)
def test_a_damaged_note_about_types_is_ignored(noted: str) -> None:
    file = open_bytes(container(record(field("g", "bytes", 1)), [], metadata={"iceberg.schema": noted}))
    assert file.schema.find_type(1) == BinaryType()


def test_a_union_is_a_struct_of_its_branches() -> None:
    union = ["int", "null", record(field("x", "int", 7), name="point"), {"type": "array", "items": "string"}]
    found = open_bytes(container(record(field("u", union, 1), field("v", ["int", "string"], 2)), [])).schema
    assert found == Schema(
        NestedField(
            1,
            "u",
            StructType(
                NestedField(-1, "tag", IntegerType(), required=True),
                NestedField(-2, "field0", IntegerType(), required=False),
                NestedField(-3, "field1", StructType(NestedField(7, "x", IntegerType(), required=True))),
                NestedField(-5, "field2", ListType(-4, StringType(), element_required=True), required=False),
            ),
            required=False,
        ),
        NestedField(
            2,
            "v",
            StructType(
                NestedField(-6, "tag", IntegerType(), required=True),
                NestedField(-7, "field0", IntegerType(), required=False),
                NestedField(-8, "field1", StringType(), required=False),
            ),
            required=True,
        ),
    )


@pytest.mark.parametrize("ids", [(None, None), (1, 2)])
def test_unions_are_filtered_and_selected_like_structs(ids: tuple[int | None, int | None]) -> None:
    union = ["null", "int", "string", record(field("x", "int"), name="point")]
    values = [None, 4, "a", {"x": 9}, 5]
    rows = [{"id": number, "u": value} for number, value in enumerate(values)]
    data = avro_file(record(field("id", "long", ids[0]), field("u", union, ids[1])), rows)

    def found(**asked: Any) -> list[Any]:
        return formatkit.read_file(data, **asked).to_arrow().to_pylist()

    assert found(where="u.field0 > 4") == [{"id": 4, "u": {"tag": 0, "field0": 5, "field1": None, "field2": None}}]
    assert found(where="u is null", select="id") == [{"id": 0}]
    assert found(where="u.tag = 1", select="u.field1") == [{"u": {"field1": "a"}}]
    assert found(where="u.field2.x = 9", select=("id", "u.tag")) == [{"id": 3, "u": {"tag": 2}}]


def test_a_branch_that_cannot_be_read_leaves_the_others() -> None:
    node = record(field("v", "int"), field("next", ["null", "int", "node"]), name="node")
    rows = [{"n": {"v": 1, "next": {"v": 2, "next": None}}}, {"n": {"v": 3, "next": 4}}]
    data = avro_file(record(field("n", node)), rows)
    file = open_bytes(data)
    assert list(file.unreadable.values()) == ["the record 'node' holds itself"]
    assert read_rows(data) == [
        {"n": {"v": 1, "next": {"tag": 1, "field0": None, "field1": None}}},
        {"n": {"v": 3, "next": {"tag": 0, "field0": 4, "field1": None}}},
    ]
    with pytest.raises(
        UnsupportedError, match=r"n\.next\.field1.*holds itself.*'n\.v', 'n\.next\.tag', 'n\.next\.field0'"
    ):
        formatkit.read_file(data)
    parts = formatkit.read_file(data, select="n.next.field0").to_arrow().to_pylist()
    assert parts == [{"n": {"next": {"field0": None}}}, {"n": {"next": {"field0": 4}}}]


def test_unions_of_records_that_name_each_other_without_end_are_passed_over() -> None:
    names = [f"n{number}" for number in range(12)]
    node = record(field("of", ["null", *names]), field("v", "int"), name=names[-1])
    for number in range(len(names) - 2, -1, -1):
        node = record(field("of", ["null", *names[: number + 1], node]), field("v", "int"), name=names[number])
    node["fields"].append(field("more", ["null", *names]))
    data = container(
        record(field("x", node), field("z", "int")), [b"\x00\x02\x00\x04", b"\x00\x06\x02\x00\x08\x00\x0a"]
    )
    assert read_rows(data) == [{"x": {"of": None, "v": v, "more": None}, "z": z} for v, z in ((1, 2), (3, 5))]
    assert "make more than 30000 columns" in next(iter(open_bytes(data).unreadable.values()))


ROWS = [
    ("long", [5, -1], [{"value": 5}, {"value": -1}]),
    (["null", "string"], ["a", None], [{"value": "a"}, {"value": None}]),
    ({"type": "array", "items": "int"}, [[1, 2], []], [{"value": [1, 2]}, {"value": []}]),
    ("null", [None, None], [{"value": None}, {"value": None}]),
    (
        [record(field("x", "int"), name="point"), record(field("s", "string"), name="text")],
        [{"x": 1}, {"s": "a"}],
        [
            {"value": {"tag": 0, "field0": {"x": 1}, "field1": None}},
            {"value": {"tag": 1, "field0": None, "field1": {"s": "a"}}},
        ],
    ),
]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(("schema", "values", "rows"), ROWS)
def test_rows_that_are_not_records_are_one_column(schema: Any, values: list[Any], rows: Any, decoder: str) -> None:
    data = avro_file(schema, values)
    assert list(fastavro.reader(io.BytesIO(data))) == values
    assert formatkit.read_file(data, properties={"read.avro.decoder": decoder}).to_arrow().to_pylist() == rows
    assert formatkit.read_file(data).count() == 2


def test_rows_without_fields_are_counted() -> None:
    data = avro_file(record(), [{}, {}, {}])
    assert list(fastavro.reader(io.BytesIO(data))) == [{}, {}, {}]
    assert formatkit.read_file(data).count() == 3
    assert formatkit.read_file(data).to_arrow().num_rows == 3


FORMS = [
    {"type": {"type": "record", "name": "r", "fields": [{"name": "x", "type": {"type": {"type": "int"}}}]}},
    {
        "type": "record",
        "name": "r",
        "aliases": ["s"],
        "fields": [{"name": "x", "type": "int", "default": 7, "doc": ""}],
    },
    {"type": "record", "name": "a.b.r", "namespace": "c", "fields": [{"name": "x", "type": "int", "order": "ignore"}]},
    {"type": "record", "name": "r", "namespace": None, "fields": [{"name": "x", "type": {"type": "int", "p": [1]}}]},
    {"type": "error", "name": "r", "fields": [{"name": "x", "type": "int", "aliases": ["x", "y"]}]},
]


@pytest.mark.parametrize("schema", FORMS)
def test_schemas_are_written_in_many_forms(schema: Any) -> None:
    assert read_rows(container(schema, [varint(4)])) == [{"x": 4}]


def test_keys_of_the_header_may_be_anything() -> None:
    data = container(record(field("x", "int")), [varint(4)], metadata={"": "", "a b": "c", "AVRO.CODEC": "?"})
    assert read_rows(data) == [{"x": 4}]
    assert open_bytes(data).metadata == {"": "", "a b": "c", "AVRO.CODEC": "?"}
    damaged = data.replace(b"a b", b"a\xffb")
    assert read_rows(damaged) == [{"x": 4}]


def test_unknown_codecs_are_named() -> None:
    data = container(record(field("x", "int")), []).replace(b"\x08null", b"\x08lz77")
    with pytest.raises(UnsupportedError, match="'lz77'; known are null, deflate, snappy"):
        read_rows(data)


def test_facts_about_a_file_can_be_inspected() -> None:
    file = open_bytes(
        avro_file(record(field("x", "int")), [{"x": 1}] * 10, "deflate", rows_per_block=4, metadata={"owner": "me"})
    )
    assert file.metadata == {"owner": "me"}
    assert file.row_count is None
    assert file.split_offsets == ()
    described = file.describe()
    assert (described["codec"], described["blocks"], described["rows"]) == ("deflate", 3, 10)


def test_a_column_that_the_file_lacks_is_named() -> None:
    file = open_bytes(container(NESTED, []))
    place = StructType(NestedField(11, "z", IntegerType(), required=True))
    with pytest.raises(ColumnNotFoundError, match=r"place\.z"):
        read_batches(file, Schema(NestedField(10, "place", place, required=False)))


@pytest.mark.parametrize("name", ["read.avro.max-block-bytes", "read.avro.decoder"])
def test_settings_that_make_no_sense_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        read_rows(container(NESTED, []), properties={name: "many"})


def test_rows_are_counted_without_decompressing_them() -> None:
    data = avro_file(record(field("x", "int")), [{"x": 1}] * 10, "snappy", rows_per_block=4)
    stored = bytes(compress("snappy", b"\x02" * 4))
    damaged = data.replace(stored, bytes(len(stored)))
    assert damaged != data
    batches = read_batches(open_bytes(damaged), Schema(POS), batch_rows=3)
    assert [row["_pos"] for batch in batches for row in batch.to_pylist()] == list(range(10))
    assert [batch.num_rows for batch in read_batches(open_bytes(data), Schema())] == [10]


def test_a_timestamp_is_a_moment_in_utc_unless_iceberg_wrote_it() -> None:
    timestamp = {"type": "long", "logicalType": "timestamp-micros"}
    schema = open_bytes(container(record(field("ours", timestamp, 1), field("theirs", timestamp)), [])).schema
    assert [type(column.field_type) for column in schema.fields] == [TimestampType, TimestamptzType]
