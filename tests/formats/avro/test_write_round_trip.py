"""What our writer wrote is what our reader reads, encrypted or not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
)

from formatkit.contract import Encryption
from formatkit.contract.variant import VariantType
from formatkit.errors import ConfigurationError, CorruptFileError
from formatkit.tck.histories import histories
from formatkit.tck.rows import comparable, from_arrow, to_arrow
from formatkit.tck.strategies import rows
from support.avro_reading import open_bytes, read_batches, read_rows
from support.avro_writing import write_columns, written

KEY = Encryption(key=bytes(range(32)), aad_prefix=b"table/file")
VARIANT = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])


def optional(field_id: int, name: str, kind: Any) -> NestedField:
    return NestedField(field_id, name, kind, required=False)


@given(
    data=st.data(),
    history=histories(),
    block_bytes=st.sampled_from([1, 60, 100_000]),
    codec=st.sampled_from(["gzip", "zstd", "snappy", "bzip2", "xz", "uncompressed"]),
    encryption=st.sampled_from([None, KEY]),
)
def test_random_rows_and_their_schema_survive(
    data: st.DataObject, history: tuple[Schema, ...], block_bytes: int, codec: str, encryption: Encryption | None
) -> None:
    schema = history[-1]
    expected: list[Any] = data.draw(rows(schema, min_size=1))
    properties = {"write.avro.block-size-bytes": str(block_bytes), "write.avro.compression-codec": codec}
    batches = to_arrow(schema, expected, ids=False).to_batches(max_chunksize=5)
    content, _ = written(schema, batches, properties=properties, encryption=encryption)
    file = open_bytes(content, encryption=encryption)
    found = file.schema.as_struct()
    assert str(found) == str(schema.as_struct())
    table = pa.Table.from_batches(read_batches(file))
    assert comparable(from_arrow(schema, table)) == comparable(expected)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (GeometryType("EPSG:3857"), pa.array([b"a", None, b""])),
        (GeographyType(), pa.array([b"a", None, b""])),
        (VariantType(), pa.array([{"metadata": b"\x01\0\0", "value": b"\x0c\x07"}, None], VARIANT)),
        (ListType(2, UnknownType(), element_required=False), pa.array([[None, None], None, []], pa.list_(pa.null()))),
        (
            MapType(2, StringType(), 3, UnknownType(), value_required=False),
            pa.array([[("a", None)], None, []], pa.map_(pa.string(), pa.null())),
        ),
        (
            StructType(optional(2, "u", UnknownType())),
            pa.StructArray.from_arrays([pa.nulls(2)], names=["u"], mask=pa.array([True, False])),
        ),
        (UnknownType(), pa.nulls(4)),
    ],
    ids=str,
)
def test_types_without_an_avro_type_of_their_own_come_back(kind: Any, column: Any) -> None:
    content = write_columns(Schema(optional(1, "a", kind)), column)
    file = open_bytes(content)
    assert file.schema.find_type("a") == kind
    assert not file.unreadable
    assert [row["a"] for row in read_rows(content)] == column.to_pylist()


def test_an_encrypted_file_asks_for_its_key() -> None:
    schema = Schema(optional(1, "a", LongType()))
    content = write_columns(schema, pa.array([1, 2]), encryption=KEY)
    with pytest.raises(ConfigurationError, match=r"test\.avro: is encrypted; its key is needed"):
        open_bytes(content)
    with pytest.raises(CorruptFileError, match="fails authentication"):
        open_bytes(content, encryption=Encryption(key=bytes(32), aad_prefix=KEY.aad_prefix))
