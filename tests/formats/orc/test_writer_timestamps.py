"""Timestamps before 1970 are stored as ORC's specification and Java have them, whenever they turn up in a file."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from formatkit.contract import ReadOptions
from formatkit.formats.orc.compression import decompress
from formatkit.formats.orc.protobuf import Message
from formatkit.formats.orc.stripes import StreamKind, read_stripe_footer
from formatkit.formats.orc.tail import read_tail
from formatkit.io import MemorySource
from formatkit.tck.rows import comparable, from_arrow, to_arrow
from support.orc_files import open_bytes, read_rows, stripes_of, written

TIMESTAMPS: list[IcebergType] = [TimestampType(), TimestamptzType(), TimestampNanoType(), TimestamptzNanoType()]
MILLI, SECOND = 1000, 1_000_000
EDGES = [
    *(-SECOND, -SECOND - 1, -SECOND + 1, -SECOND + MILLI - 1, -SECOND + MILLI, -1, 0, 1),
    *(-2 * SECOND, -2 * SECOND + 1, -2 * SECOND + MILLI - 1, -2 * SECOND + MILLI, -SECOND - MILLI, -7 * SECOND - 1),
]
JUST_BEFORE = pa.array([-1_500_000, None], pa.timestamp("us"))
LATER = pa.array([1_500_000, None], pa.timestamp("us"))


def stored_nanos(data: bytes, type_id: int) -> list[bytes]:
    """The streams of nanoseconds of a column, stripe by stripe."""
    source = MemorySource(data)
    tail = read_tail(source)
    found = []
    for stripe in tail.stripes:
        for stream in read_stripe_footer(source, tail, stripe).streams:
            if (stream.kind, stream.column) == (StreamKind.SECONDARY, type_id):
                postscript = tail.postscript
                found.append(decompress(source.read(*stream.range), postscript.codec, postscript.block_bytes))
    return found


@pytest.mark.parametrize("kind", TIMESTAMPS, ids=str)
def test_moments_around_1970_come_back_everywhere(kind: IcebergType) -> None:
    scale = 1000 if isinstance(kind, TimestampNanoType | TimestamptzNanoType) else 1
    schema = Schema(NestedField(1, "t", kind))
    plain: list[dict[int, Any]] = [{1: None if one is None else one * scale} for one in [*EDGES, None]]
    table = to_arrow(schema, plain)
    data, _ = written(schema, table.to_batches())
    assert str(pyorc.Reader(io.BytesIO(data)).schema) == (
        "struct<t:timestamp with local time zone>" if "tz" in str(kind) else "struct<t:timestamp>"
    )
    assert comparable(from_arrow(schema, pyarrow.orc.read_table(io.BytesIO(data)))) == comparable(plain)
    file = open_bytes(data)
    with file.read(ReadOptions(projection=schema)).batches as batches:
        assert comparable(row for batch in batches for row in from_arrow(schema, batch)) == comparable(plain)


def test_nanoseconds_are_stored_as_java_has_them() -> None:
    schema = Schema(NestedField(1, "t", TimestampType()))
    data, _ = written(schema, [pa.RecordBatch.from_arrays([JUST_BEFORE], ["t"])])
    # One value of four bits or less is stored as it is: 5 and that eight zeros follow.
    (stream,) = stored_nanos(data, 1)
    assert stream[-1] == 5 << 3 | 7


@pytest.mark.parametrize("codec", ["none", "zlib", "snappy", "lz4", "zstd"])
def test_files_in_which_such_moments_turn_up_late_are_whole(codec: str) -> None:
    schema = Schema(
        NestedField(1, "a", TimestampType()), NestedField(2, "b", TimestampType()), NestedField(3, "s", StringType())
    )
    texts = pa.array(["x", "y"])
    batches = [
        pa.RecordBatch.from_arrays([*columns, texts], ["a", "b", "s"])
        for columns in ([LATER, LATER], [JUST_BEFORE, LATER], [LATER, JUST_BEFORE], [LATER, LATER])
    ]
    properties = {"write.orc.compression-codec": codec, "write.orc.bloom.filter.columns": "a,s"}
    data, result = written(schema, batches, properties=properties, metadata={"k": "v"})
    expected = pa.Table.from_batches(batches).to_pylist()
    file = open_bytes(data)
    assert read_rows(file) == expected
    assert file.metadata == {"k": "v"}
    assert (result.row_count, result.size_bytes) == (8, len(data))
    reader = pyorc.Reader(io.BytesIO(data))
    assert result.split_offsets == tuple(stripe.bytes_offset for stripe in reader.iter_stripes())
    assert len(result.split_offsets) == 3
    assert [reader[number].statistics["number_of_values"] for number in range(4)] == [8, 4, 4, 8]
    assert sum((result.column_sizes or {}).values()) < len(data)
    assert pyarrow.orc.read_table(io.BytesIO(data)).to_pylist() == expected


@given(data=st.data())
def test_any_nesting_of_moments_comes_back(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(TIMESTAMPS[:2]))
    inner = StructType(NestedField(10, "t", kind), NestedField(11, "s", StringType()))
    shapes: list[IcebergType] = [
        kind,
        inner,
        StructType(NestedField(12, "deep", inner), NestedField(13, "t", kind)),
        ListType(14, inner, element_required=False),
        MapType(15, kind, 16, ListType(17, kind, element_required=False), value_required=False),
    ]
    schema = Schema(NestedField(1, "c", data.draw(st.sampled_from(shapes))), NestedField(2, "text", StringType()))
    moments = st.none() | st.sampled_from(EDGES) | st.integers(-(2**55), 2**55)
    rows = data.draw(st.lists(_values(schema.as_struct(), moments), min_size=1, max_size=20))
    pieces = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    batches = [batch for piece in pieces for batch in to_arrow(schema, piece).to_batches()]
    stored, _ = written(schema, batches, properties=stripes_of(data.draw(st.integers(1, 5))))
    file = open_bytes(stored)
    assert file.schema == schema
    with file.read(ReadOptions(projection=schema)).batches as found:
        assert comparable(row for batch in found for row in from_arrow(schema, batch)) == comparable(rows)


def test_nothing_is_stored_for_nulls_inside_structs_of_lists() -> None:
    inner = StructType(NestedField(3, "t", TimestampType()))
    schema = Schema(NestedField(1, "c", ListType(2, inner, element_required=False)))
    rows: list[dict[int, Any]] = [{1: [{3: None}, {3: -1_000_001}, None, {3: -7}]}]
    data, _ = written(schema, to_arrow(schema, rows).to_batches())
    found = pyarrow.orc.read_table(io.BytesIO(data))
    assert comparable(from_arrow(schema, found)) == comparable(rows)


def _values(kind: IcebergType, moments: st.SearchStrategy[int | None], *, required: bool = True) -> Any:
    match kind:
        case StructType(fields=fields):
            values: Any = st.fixed_dictionaries(
                {field.field_id: _values(field.field_type, moments, required=False) for field in fields}
            )
        case ListType(element_type=element):
            values = st.lists(_values(element, moments, required=False), max_size=3)
        case MapType(key_type=key, value_type=value):
            pairs = st.tuples(_values(key, moments), _values(value, moments, required=False))
            values = st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
        case StringType():
            values = st.text(max_size=2)
        case _:
            values = moments.filter(lambda moment: moment is not None)
    return values if required else st.none() | values


@pytest.mark.parametrize("moment", [-1_500_000, -1, -SECOND + 1, -86_400 * SECOND - 1, 7 * SECOND + 1])
def test_bounds_hold_the_moments(moment: int) -> None:
    schema = Schema(NestedField(1, "t", TimestampType()))
    column = pa.array([moment, -1_500_000, None], pa.timestamp("us"))
    data, _ = written(schema, [pa.RecordBatch.from_arrays([column], ["t"])])
    statistics = pyorc.Reader(io.BytesIO(data))[1].statistics
    assert (statistics["number_of_values"], statistics["has_null"]) == (2, True)
    lower, upper = statistics["minimum"].timestamp() * SECOND, statistics["maximum"].timestamp() * SECOND
    assert -2 * SECOND < lower - min(moment, -1_500_000) <= 0
    # Bounds are told in milliseconds.
    assert -MILLI <= upper - max(moment, -1_500_000) < 2 * SECOND
    file = open_bytes(data)
    for where in ("t < '1969-12-31T23:59:58.6'", "t = '1969-12-31T23:59:58.5'", "t <= '1970-01-01T00:00:00'"):
        assert column[1].as_py() in [row["t"] for row in read_rows(file, where=where)]


def test_statistics_of_a_file_are_those_of_all_its_parts() -> None:
    kinds = {
        "i": (LongType(), pa.array([2**62, None, -1]), pa.array([2**62, 5, None])),
        "d": (DoubleType(), pa.array([0.5, None, -1.0]), pa.array([8.0, -2.5, None])),
        "s": (StringType(), pa.array(["b", None, "ä"]), pa.array(["a", "c", None])),
        "b": (BooleanType(), pa.array([True, None, False]), pa.array([True, True, None])),
        "m": (DecimalType(9, 2), _decimals("1.10", None, "-7"), _decimals("0", "9.99", None)),
        "c": (DateType(), pa.array([3, None, -3], pa.date32()), pa.array([9, 0, None], pa.date32())),
        "n": (LongType(), pa.array([None] * 3, pa.int64()), pa.array([1, None, 4])),
        "l": (
            ListType(99, LongType(), element_required=False),
            pa.array([[1], None, []]),
            pa.array([[1, 2], [], None]),
        ),
    }
    late = [pa.array([0, 1, None], pa.timestamp("us")), pa.array([-1_500_000, 1, None], pa.timestamp("us"))]
    fields = [NestedField(i + 1, name, kind) for i, (name, (kind, *_)) in enumerate(kinds.items())]
    schema = Schema(NestedField(50, "t", TimestampType()), *fields)
    contents: list[tuple[Any, Any]] = [(first, second) for _, first, second in kinds.values()]
    batches = [
        pa.RecordBatch.from_arrays([late[part], *(columns[part] for columns in contents)], ["t", *kinds])
        for part in (0, 1)
    ]
    data, _ = written(schema, batches)
    # The same rows without their timestamps are encoded in one part.
    whole = [pa.RecordBatch.from_arrays(batch.columns[1:], list(kinds)) for batch in batches]
    plain, _ = written(Schema(*fields), whole)
    found, expected = (pyorc.Reader(io.BytesIO(one)) for one in (data, plain))
    assert (found.num_of_stripes, expected.num_of_stripes) == (2, 1)
    decimal_column = [*kinds].index("m") + 1
    for column in range(1, len(kinds) + 1):
        merged, direct = found[column + 1].statistics, expected[column].statistics
        if column == decimal_column:
            merged, direct = ({key: one[key] for key in one if key != "sum"} for one in (merged, direct))
        assert merged == direct


def _decimals(*values: str | None) -> pa.Array[Any]:
    return pa.array([None if value is None else Decimal(value) for value in values], pa.decimal128(9, 2))


@pytest.mark.parametrize("codec", ["none", "zlib"])
@pytest.mark.parametrize("nulls", [0.0, 0.3])
def test_row_indexes_lead_to_the_moments(codec: str, nulls: float) -> None:
    rng = np.random.default_rng(3)
    moments = rng.integers(-(2**50), -SECOND, 5000)
    column = pa.array(moments, pa.timestamp("us", "UTC"), mask=rng.random(5000) < nulls)
    schema = Schema(NestedField(1, "t", TimestamptzType()))
    properties = {"write.orc.compression-codec": codec, "orc.row.index.stride": "100"}
    data, _ = written(schema, [pa.RecordBatch.from_arrays([column], ["t"])], properties=properties)
    reader = pyorc.Reader(io.BytesIO(data))
    assert reader.num_of_stripes == 1
    for row in (4999, 0, 2345, 100, 99):
        reader.seek(row)
        assert next(reader) == (column[row].as_py(),)


def test_files_without_such_moments_hold_what_the_encoder_wrote() -> None:
    schema = Schema(NestedField(1, "t", TimestampType()))
    data, _ = written(schema, [pa.RecordBatch.from_arrays([LATER], ["t"])])
    source = MemorySource(data)
    tail = read_tail(source)
    stored = decompress(source.read(*tail.statistics), tail.postscript.codec, tail.postscript.block_bytes)
    (stripe,) = Message(stored).messages(1)
    moments = Message(stripe.messages(1)[1].content(9))
    assert (moments.signed(3), moments.signed(4)) == (1500, 1500)
