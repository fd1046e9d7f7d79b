"""Deletion vectors as manifests list them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.typedef import Record

from formatkit.errors import ConfigurationError, FileAlreadyExistsError, StorageError
from formatkit.io import open_source
from formatkit.puffin import DeletionVector, read_deletion_vector, read_footer
from formatkit.write.deletes import PartitionOf, write_deletion_vectors
from support.data_file_fields import field_of, fields_of
from support.failing_sinks import FailingSink

VECTORS = {
    "s3://bucket/one.parquet": DeletionVector.from_positions([1, 5]),
    "s3://bucket/ä.orc": DeletionVector.from_positions(range(2**32 - 5, 2**32 + 5)),
}


def test_each_vector_is_a_file_of_its_own_to_manifests(tmp_path: Path) -> None:
    path = tmp_path / "d.puffin"
    partitions = {"s3://bucket/one.parquet": PartitionOf(3, Record("x"))}
    one, other = write_deletion_vectors(path, VECTORS, partitions=partitions)
    assert fields_of(one) == {
        "content": DataFileContent.POSITION_DELETES,
        "file_path": str(path),
        "file_format": FileFormat.PUFFIN,
        "partition": Record("x"),
        "record_count": 2,
        "file_size_in_bytes": path.stat().st_size,
        "referenced_data_file": "s3://bucket/one.parquet",
        "content_offset": 4,
        "content_size_in_bytes": 44,
    }
    assert (one.spec_id, other.spec_id) == (3, 0)
    assert (other.record_count, other.partition) == (10, Record())
    assert field_of(other, "content_offset") == 48


def test_what_is_listed_is_what_is_read(tmp_path: Path) -> None:
    for file in write_deletion_vectors(tmp_path / "d.puffin", VECTORS):
        data_file = field_of(file, "referenced_data_file")
        found = read_deletion_vector(
            open_source(file.file_path),
            field_of(file, "content_offset"),
            field_of(file, "content_size_in_bytes"),
            cardinality=file.record_count,
            referenced_data_file=data_file,
        )
        assert found == VECTORS[data_file]


def test_pyiceberg_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "d.puffin"
    write_deletion_vectors(path, VECTORS)
    vectors = deletion_vectors_from_puffin_file(PuffinFile(path.read_bytes()))
    assert {each.referenced_data_file: each.to_vector().to_pylist() for each in vectors} == {
        location: vector.positions.tolist() for location, vector in VECTORS.items()
    }


def test_the_file_says_who_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "d.puffin"
    write_deletion_vectors(path, VECTORS)
    assert read_footer(open_source(path)).properties["created-by"].startswith("formatkit ")


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ({}, r"no deletion vector to write to .*d\.puffin"),
        (VECTORS | {"a": DeletionVector.from_positions([])}, "deletion vectors of a delete no row"),
    ],
)
def test_vectors_that_delete_nothing_are_refused(
    tmp_path: Path, vectors: dict[str, DeletionVector], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        write_deletion_vectors(tmp_path / "d.puffin", vectors)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("room", [0, 10, 60, 200])
def test_a_failing_storage_leaves_no_file(room: int) -> None:
    sink = FailingSink(room=room)
    with pytest.raises(StorageError, match="the disk is full"):
        write_deletion_vectors(sink, VECTORS)
    assert sink.data is None
    assert all(stream.closed for stream in sink.streams)


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "d.puffin"
    path.write_bytes(b"other")
    with pytest.raises(FileAlreadyExistsError):
        write_deletion_vectors(path, VECTORS)
    assert path.read_bytes() == b"other"
