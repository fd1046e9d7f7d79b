"""Variant columns in Arrow batches."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StructType, UnknownType

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.arrow.types import arrow_type
from formatkit.batches.arrow.variant import variant_array, variants
from formatkit.contract import MetricsMode, Variant, VariantType
from formatkit.errors import IllegalPromotionError, InvalidDataError
from formatkit.kernel import bind
from formatkit.write.derive import derived_schema

VALUES = [Variant.of({"a": [1, "x"]}), None, Variant.of(None), Variant.of(5)]
SCHEMA = Schema(NestedField(1, "v", VariantType()))
CANONICAL = arrow_type(VariantType())
OPS = ArrowBatch()


def form(metadata: Any, value: Any, *, reverse: bool = False) -> Any:
    fields = [pa.field("metadata", metadata), pa.field("value", value)]
    return pa.struct(fields[::-1] if reverse else fields)


FORMS: dict[str, Any] = {
    "canonical": CANONICAL,
    "nullable parts": form(pa.binary(), pa.binary()),
    "large": form(pa.large_binary(), pa.large_binary()),
    "views": form(pa.binary_view(), pa.binary_view()),
    "the value first": form(pa.binary(), pa.binary(), reverse=True),
    "a dictionary of metadata": form(pa.dictionary(pa.int8(), pa.binary()), pa.binary()),
}


def batch_of(kind: Any) -> pa.RecordBatch:
    rows = [value and {"metadata": value.metadata, "value": value.value} for value in VALUES]
    return pa.RecordBatch.from_arrays([pa.array(rows, kind)], names=["v"])


@pytest.mark.parametrize("kind", FORMS.values(), ids=FORMS)
def test_every_form_becomes_the_canonical_one(kind: Any) -> None:
    evolved = OPS.evolve(SCHEMA, SCHEMA, {})(batch_of(kind))
    assert evolved.schema.field(0).type == CANONICAL
    assert variants(evolved.column(0)) == VALUES
    assert list(OPS.rows(SCHEMA, batch_of(kind))) == [(value,) for value in VALUES]


@pytest.mark.parametrize("kind", FORMS.values(), ids=FORMS)
def test_slices_hold_their_own_rows(kind: Any) -> None:
    assert [row[0] for row in OPS.rows(SCHEMA, batch_of(kind).slice(1, 2))] == VALUES[1:3]


@pytest.mark.parametrize("kind", FORMS.values(), ids=FORMS)
def test_nulls_are_counted_and_filtered(kind: Any) -> None:
    collector = OPS.collector(SCHEMA, {1: MetricsMode.parse("full")})
    collector.update(batch_of(kind))
    metrics = collector.finish().columns[1]
    assert (metrics.value_count, metrics.null_count, metrics.lower, metrics.upper) == (4, 1, None, None)
    kept = OPS.filter(SCHEMA, bind(SCHEMA, "v is not null"))(batch_of(kind))
    assert [row[0] for row in OPS.rows(SCHEMA, kept)] == [value for value in VALUES if value is not None]


@pytest.mark.parametrize("kind", [pa.binary(), pa.struct([("metadata", pa.binary())]), pa.struct([("a", pa.int32())])])
def test_other_columns_are_no_variants(kind: Any) -> None:
    batch = pa.RecordBatch.from_arrays([pa.nulls(1, kind)], names=["v"])
    with pytest.raises(InvalidDataError, match="cannot be taken for"):
        OPS.evolve(SCHEMA, SCHEMA, {})(batch)


def test_a_variant_is_promoted_to_nothing_and_nothing_to_it_but_unknown() -> None:
    numbers = Schema(NestedField(1, "v", IntegerType()))
    structs = Schema(NestedField(1, "v", StructType(NestedField(2, "value", IntegerType()))))
    for source, target in [(SCHEMA, numbers), (numbers, SCHEMA), (SCHEMA, structs), (structs, SCHEMA)]:
        with pytest.raises(IllegalPromotionError):
            OPS.evolve(source, target, {})
    unknown = Schema(NestedField(1, "v", UnknownType()))
    evolved = OPS.evolve(unknown, SCHEMA, {})(pa.RecordBatch.from_arrays([pa.nulls(2)], names=["v"]))
    assert variants(evolved.column(0)) == [None, None]


def test_a_column_that_is_absent_is_null() -> None:
    source = Schema(NestedField(2, "i", IntegerType()))
    target = Schema(NestedField(2, "i", IntegerType()), NestedField(1, "v", VariantType()))
    evolved = OPS.evolve(source, target, {})(pa.RecordBatch.from_arrays([pa.array([1, 2], pa.int32())], names=["i"]))
    assert variants(evolved.column(1)) == [None, None]


def test_batches_can_be_joined_and_pickled() -> None:
    joined = OPS.concat(SCHEMA, [batch_of(kind) for kind in FORMS.values()])
    assert variants(joined.column(0)) == VALUES * len(FORMS)
    assert pickle.loads(pickle.dumps(joined)).equals(joined)


def marked(metadata: dict[str, str]) -> pa.Schema:
    return pa.schema([pa.field("v", CANONICAL, metadata=metadata), pa.field("i", pa.int32())])


@pytest.mark.parametrize("name", ["arrow.parquet.variant", "parquet.variant"])
def test_the_name_of_arrows_extension_type_marks_a_variant(name: str) -> None:
    schema = derived_schema(marked({"ARROW:extension:name": name, "ARROW:extension:metadata": ""}))
    assert schema == Schema(NestedField(1, "v", VariantType()), NestedField(2, "i", IntegerType()))


def test_a_struct_without_a_mark_stays_a_struct() -> None:
    assert isinstance(derived_schema(marked({})).fields[0].field_type, StructType)


class _Extension(pa.ExtensionType):
    """As another package may define it."""

    def __init__(self) -> None:
        super().__init__(CANONICAL, "arrow.parquet.variant")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> _Extension:
        return cls()


def test_the_extension_type_of_another_package_is_taken() -> None:
    column: Any = pa.ExtensionArray.from_storage(_Extension(), variant_array(VALUES))
    batch = pa.RecordBatch.from_arrays([column], names=["v"])
    assert derived_schema(batch.schema) == SCHEMA
    assert [row[0] for row in OPS.rows(SCHEMA, batch)] == VALUES
