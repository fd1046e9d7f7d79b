from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, LongType, MapType, NestedField, StringType, StructType, UUIDType

from formatkit.batches.polars import PolarsBatch, series_of
from formatkit.contract import Encryption, ReadOptions, WriteOptions, WriteResult
from formatkit.errors import FormatkitError, InvalidDataError, UnsupportedError
from formatkit.formats.parquet.polars.plugin import PolarsParquetFormat
from formatkit.io import MemorySink
from formatkit.tck.histories import histories
from formatkit.tck.rows import to_arrow
from formatkit.tck.strategies import rows
from support.batch_types import POLARS
from support.polars_parquet import open_for_polars, rows_by_arrow

ID = NestedField(1, "id", LongType(), required=True)


def write(schema: Schema, *batches: pl.DataFrame, **options: str) -> tuple[WriteResult | None, bytes | None]:
    sink = MemorySink()
    with PolarsParquetFormat().writer().open(sink, WriteOptions(schema=schema, properties=options)) as writer:
        for batch in batches:
            writer.write(batch)
        result = writer.close()
    return result, sink.data


@given(data=st.data())
def test_what_is_written_is_what_is_read_back(data: st.DataObject) -> None:
    schema = data.draw(histories(most_changes=0), label="schema")[0]
    written = data.draw(rows(schema, min_size=1), label="rows")
    frame = POLARS.batch(to_arrow(schema, written).to_batches()[0].columns)
    result, stored = write(schema, frame)
    assert result is not None
    assert stored is not None
    assert (result.row_count, result.size_bytes) == (len(written), len(stored))
    file = open_for_polars(stored)
    assert file.schema.field_ids == schema.field_ids
    assert repr(rows_by_arrow(stored)) == repr(list(PolarsBatch().rows(schema, frame)))


def test_ids_and_types_are_stored_at_every_level() -> None:
    pairs = MapType(2, StringType(), 3, StructType(NestedField(4, "u", UUIDType())), value_required=False)
    schema = Schema(NestedField(1, "m", pairs), NestedField(5, "f", FixedType(2)))
    columns = [series_of(pairs, [[("k", (bytes(16),))]]).alias("m"), series_of(FixedType(2), [b"ab"]).alias("f")]
    _, stored = write(schema, pl.DataFrame(columns))
    assert stored is not None
    text = str(pq.ParquetFile(pa.BufferReader(stored)).schema)
    for part in ("field_id=1 m (Map)", "field_id=2 key (String)", "field_id=4 u (UUID)", "fixed_len_byte_array(2)"):
        assert part in text


def test_properties_reach_the_file() -> None:
    frame = pl.DataFrame({"id": range(10)})
    result, stored = write(Schema(ID), frame, **{"write.parquet.row-group-limit": "4"})
    assert stored is not None
    assert pq.ParquetFile(pa.BufferReader(stored)).metadata.num_row_groups == 3
    assert result is not None
    assert result.split_offsets == open_for_polars(stored).split_offsets


def test_zero_rows_leave_no_file() -> None:
    assert write(Schema(ID), pl.DataFrame({"id": []}, schema={"id": pl.Int64})) == (None, None)


def test_a_failure_leaves_no_file() -> None:
    sink = MemorySink()
    with (
        pytest.raises(InvalidDataError, match="'id'"),
        PolarsParquetFormat().writer().open(sink, WriteOptions(schema=Schema(ID))) as writer,
    ):
        writer.write(pl.DataFrame({"id": [1, None]}))
    assert sink.data is None


def test_an_aborted_file_cannot_be_closed() -> None:
    writer = PolarsParquetFormat().writer().open(MemorySink(), WriteOptions(schema=Schema(ID)))
    writer.write(pl.DataFrame({"id": [1]}))
    assert writer.bytes_written() > 0
    writer.abort()
    with pytest.raises(FormatkitError, match="aborted"):
        writer.close()


@pytest.mark.parametrize("kind", [FixedType(2), UUIDType()], ids=str)
def test_binary_of_another_length_is_refused(kind: FixedType | UUIDType) -> None:
    with pytest.raises(InvalidDataError, match="'f'"):
        write(Schema(NestedField(1, "f", kind)), pl.DataFrame({"f": [b"abc"]}))


def test_keys_are_refused() -> None:
    options = WriteOptions(schema=Schema(ID), encryption=Encryption(key=b"k" * 16))
    with pytest.raises(UnsupportedError, match="Arrow batches only"):
        PolarsParquetFormat().writer().open(MemorySink(), options)


def test_frames_of_any_form_are_written() -> None:
    schema = Schema(NestedField(1, "s", StringType()), NestedField(2, "n", LongType()))
    frame = pl.DataFrame({"s": pl.Series(["a", None], dtype=pl.Categorical), "n": pl.Series([1, 2], dtype=pl.UInt8)})
    _, stored = write(schema, frame)
    assert stored is not None
    assert rows_by_arrow(stored) == [("a", 1), (None, 2)]
    assert open_for_polars(stored).read(ReadOptions(projection=schema)).counters["row_groups"] == 1
