"""Files end when they are long enough; few are open at a time, and the rows that wait for them are bounded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import BinaryType, LongType, NestedField

import formatkit
from formatkit.errors import ConfigurationError
from formatkit.write import TableWriter, write_data_files
from formatkit.write.partition import Partitioner
from support.written_tables import ALL_FORMATS, files_on_disk, new_table, spec, table_rows

ID = NestedField(1, "id", LongType(), required=True)
CONTENT = NestedField(2, "content", BinaryType())
_TARGET = 400_000


def noise(rows: int, length: int = 100, first: int = 0) -> pa.Table:
    """Rows that no codec makes shorter."""
    content = np.random.default_rng(first).bytes(rows * length)
    values = pa.array([content[i * length : (i + 1) * length] for i in range(rows)], pa.binary())
    return pa.table({"id": range(first, first + rows), "content": values})


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_files_are_about_as_long_as_asked_for(catalog: InMemoryCatalog, file_format: str) -> None:
    table = new_table(catalog, ID, CONTENT, properties={"write.target-file-size-bytes": str(_TARGET)})
    formatkit.append(table, noise(20_000), file_format)
    paths = sorted(files_on_disk(table), key=lambda path: path.name)
    first, *others, last = [path.stat().st_size for path in paths]
    assert 0.5 * _TARGET < first < 2.2 * _TARGET  # what a format tells about the first one may be a guess
    assert len(others) >= 2
    assert all(0.8 * _TARGET < size < 1.25 * _TARGET for size in others), others
    assert last < 1.25 * _TARGET
    assert len({row[0] for row in table_rows(table, select="id")}) == 20_000


def test_files_of_rows_that_compress_well_are_as_long_as_asked_for(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, CONTENT)
    rows = pa.table({"id": range(400_000), "content": pa.array([b"the same again"] * 400_000, pa.binary())})
    files = write_data_files(table, rows, target_file_bytes=400_000)
    assert all(200_000 < file.file_size_in_bytes < 800_000 for file in files[:-1])


def test_a_batch_is_split_if_it_is_longer_than_a_file(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, CONTENT)
    files = write_data_files(table, noise(40, 100_000), target_file_bytes=1_000_000, file_format="avro")
    assert len(files) == 4


@pytest.mark.parametrize("size", ["0", "-5", "1 MB"])
def test_a_size_must_be_a_number_of_bytes(catalog: InMemoryCatalog, size: str) -> None:
    table = new_table(catalog, ID, properties={"write.target-file-size-bytes": size})
    with pytest.raises(ConfigurationError):
        formatkit.append(table, pa.table({"id": [1]}))


def open_files(folder: Path) -> int:
    """How many files below a folder this process has open."""
    return sum(link.resolve().is_relative_to(folder) for link in Path("/proc/self/fd").iterdir())


def test_a_thousand_partitions_are_written_with_a_few_open_files(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    table = new_table(catalog, ID, CONTENT, partitions=spec((1, BucketTransform(1000))))
    most = 0
    with TableWriter(table.metadata, table.io, most_open_files=7, buffer_bytes=4 << 20) as writer:
        for first in range(0, 40_000, 2_000):
            writer.write(noise(2_000, 200, first).to_batches()[0])
            most = max(most, open_files(tmp_path))
        files = writer.close()
    assert most <= 8
    assert sum(file.record_count for file in files) == 40_000
    assert len({file.partition[0] for file in files}) == 1000


def test_only_so_many_files_are_open_at_a_time(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    table = new_table(catalog, ID, partitions=spec((1, BucketTransform(8))))
    most = 0
    with TableWriter(table.metadata, table.io, most_open_files=3) as writer:
        for first in range(0, 400_000, 40_000):
            writer.write(pa.record_batch({"id": range(first, first + 40_000)}))
            most = max(most, open_files(tmp_path))
        files = writer.close()
    assert most == 3
    assert len(files) == 8


def test_rows_wait_for_each_other_rather_than_make_small_files(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, partitions=spec((1, BucketTransform(200))))
    with TableWriter(table.metadata, table.io, most_open_files=3, buffer_bytes=8 << 20) as writer:
        for first in range(0, 400_000, 20_000):
            writer.write(pa.record_batch({"id": range(first, first + 20_000)}))
        files = writer.close()
    assert len(files) == 200


def test_memory_is_bounded_however_many_partitions_there_are(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, CONTENT, partitions=spec((1, BucketTransform(50))))
    before, most = pa.total_allocated_bytes(), 0
    with TableWriter(table.metadata, table.io, buffer_bytes=4 << 20, most_open_files=10) as writer:
        for first in range(0, 20_000, 500):
            writer.write(noise(500, 2_000, first).to_batches()[0])
            most = max(most, pa.total_allocated_bytes() - before)
    # 40 MB pass through.
    assert most < 12 << 20


def test_a_row_does_not_keep_the_rows_that_it_came_with(catalog: InMemoryCatalog) -> None:
    """One cold partition gets a row of each batch, a hot one all others; the hot rows must not stay with the cold."""
    table = new_table(catalog, ID, CONTENT, NestedField(3, "p", LongType()), partitions=spec((3, IdentityTransform())))
    before, most = pa.total_allocated_bytes(), 0
    options = {"buffer_bytes": 16 << 20, "target_file_bytes": 4 << 20, "file_format": "arrow"}
    with TableWriter(table.metadata, table.io, clustered=False, **options) as writer:  # type: ignore[arg-type]
        partitioner = Partitioner(table.spec(), table.schema())
        for first in range(0, 40_000, 1_000):
            rows = noise(1_000, 4_000, first)
            rows = rows.append_column("p", pa.array([1] * 500 + [0] + [1] * 499, pa.int64()))
            split = partitioner.split(writer._matcher.match(rows.to_batches()[0]))
            del rows
            writer._fan_out.write(split)
            del split
            most = max(most, pa.total_allocated_bytes() - before)
    assert most < 48 << 20


def test_clustered_rows_are_written_one_partition_after_the_other(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, NestedField(2, "p", LongType()), partitions=spec((2, IdentityTransform())))
    rows = pa.table({"id": range(60_000), "p": np.arange(60_000) // 1_000})
    files = write_data_files(table, rows.to_batches(max_chunksize=700), most_open_files=1, buffer_bytes=100_000)
    assert [file.partition[0] for file in files] == list(range(60))


def test_a_partition_that_comes_back_ends_the_clustering(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, NestedField(2, "p", LongType()), partitions=spec((2, IdentityTransform())))
    batches = [pa.record_batch({"id": range(131_072), "p": np.full(131_072, number % 2)}) for number in range(8)]
    assert sorted(file.record_count for file in write_data_files(table, batches)) == [131_072, 131_072 * 3, 131_072 * 4]
    assert len(write_data_files(table, batches, clustered=True)) == 8
    assert len(write_data_files(table, batches, clustered=False)) == 2


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    return new_table(catalog, ID, CONTENT)


def test_files_have_names_of_their_own(table: Table) -> None:
    for task in (3, 3):
        formatkit.write.write_data_files(table, noise(10), task=task)
    names = [path.name for path in files_on_disk(table)]
    assert len(set(names)) == 2
    assert all(name.startswith("00003-") and name.endswith("-00001.parquet") for name in names)
