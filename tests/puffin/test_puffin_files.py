"""Puffin files: several deletion vectors in one, read by range, by footer, and by pyiceberg."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from formatkit.errors import CorruptFileError, UnsupportedError
from formatkit.io import MemorySink, MemorySource
from formatkit.puffin import BlobMetadata, DeletionVector, PuffinWriter, read_deletion_vector, read_footer
from support.damage import damages

VECTORS = {
    "s3://bucket/a b.parquet": DeletionVector.from_positions([1, 2, 9]),
    "file:/tmp/ä.orc": DeletionVector.from_positions(range(1000, 9000)),
    "far.avro": DeletionVector.from_positions([2**32 - 1, 2**32, 2**40]),
}


def written(vectors: dict[str, DeletionVector] = VECTORS) -> tuple[bytes, list[BlobMetadata]]:
    sink = MemorySink()
    stream = sink.create()
    writer = PuffinWriter(stream)
    blobs = [writer.add_deletion_vector(vector, file) for file, vector in vectors.items()]
    size = writer.finish({"created-by": "a test"})
    stream.close()
    assert sink.data is not None
    assert len(sink.data) == size
    return sink.data, blobs


def test_each_vector_is_found_by_its_range_alone() -> None:
    data, blobs = written()
    for blob, (file, vector) in zip(blobs, VECTORS.items(), strict=True):
        source = MemorySource(data)
        assert read_deletion_vector(source, blob.offset, blob.length, cardinality=vector.cardinality) == vector
        assert read_deletion_vector(source, blob.offset, blob.length, referenced_data_file=file) == vector


def test_the_footer_says_what_was_written() -> None:
    data, blobs = written()
    footer = read_footer(MemorySource(data))
    assert footer.blobs == tuple(blobs)
    assert footer.properties == {"created-by": "a test"}
    assert blobs[0] == BlobMetadata(
        type="deletion-vector-v1",
        fields=(2147483645,),
        snapshot_id=-1,
        sequence_number=-1,
        offset=4,
        length=46,
        properties={"referenced-data-file": "s3://bucket/a b.parquet", "cardinality": "3"},
    )


def test_pyiceberg_reads_the_file() -> None:
    data, _ = written()
    vectors = deletion_vectors_from_puffin_file(PuffinFile(data))
    assert {each.referenced_data_file: each.to_vector().to_pylist() for each in vectors} == {
        file: vector.positions.tolist() for file, vector in VECTORS.items()
    }


def test_a_footer_of_many_blobs_is_read() -> None:
    data, blobs = written({f"{'long' * 20}{i}.parquet": DeletionVector.from_positions([i]) for i in range(200)})
    assert read_footer(MemorySource(data)).blobs == tuple(blobs)


def test_other_blobs_keep_what_is_said_of_them() -> None:
    sink = MemorySink()
    stream = sink.create()
    writer = PuffinWriter(stream)
    blob = writer.add("sketch", b"abc", fields=[1, 2], snapshot_id=7, sequence_number=3, compression_codec="zstd")
    writer.finish()
    stream.close()
    assert sink.data is not None
    footer = read_footer(MemorySource(sink.data))
    assert footer.blobs == (blob,)
    assert footer.properties == {}
    assert sink.data[blob.offset : blob.offset + blob.length] == b"abc"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cardinality": 4}, "holds 3 positions, but the manifest says 4"),
        ({"offset": 5}, "corrupt deletion vector"),
        ({"size": 45}, "it has 45 bytes, but says that it has 46"),
        ({"size": 10**9}, "outside|beyond|range|bytes"),
        ({"referenced_data_file": "far.avro"}, "belongs to the data file s3://bucket/a b.parquet, not to far.avro"),
        ({"referenced_data_file": "far.avro", "offset": 5}, "lists no blob of type deletion-vector-v1 there"),
        ({"referenced_data_file": "far.avro", "size": 45}, "gives it 46 bytes, but the manifest 45"),
        (
            {"referenced_data_file": "s3://bucket/a b.parquet", "cardinality": 4},
            "counts 3 positions, but the manifest 4",
        ),
    ],
)
def test_a_vector_that_is_not_the_one_described_is_refused(change: dict[str, Any], message: str) -> None:
    data, blobs = written()
    arguments: dict[str, Any] = {"offset": blobs[0].offset, "size": blobs[0].length} | change
    with pytest.raises(CorruptFileError, match=message):
        read_deletion_vector(MemorySource(data), **arguments)


def test_a_blob_of_another_type_is_no_deletion_vector() -> None:
    sink = MemorySink()
    stream = sink.create()
    writer = PuffinWriter(stream)
    vector, properties = VECTORS["far.avro"], {"referenced-data-file": "far.avro", "cardinality": "3"}
    blob = writer.add("x", vector.to_bytes(), fields=[], snapshot_id=-1, sequence_number=-1, properties=properties)
    writer.finish()
    stream.close()
    assert sink.data is not None
    source = MemorySource(sink.data)
    assert read_deletion_vector(source, blob.offset, blob.length) == vector
    with pytest.raises(CorruptFileError, match="lists no blob of type deletion-vector-v1 there"):
        read_deletion_vector(source, blob.offset, blob.length, referenced_data_file="far.avro")


def puffin(payload: bytes, *, flags: int = 0, length: int | None = None, magic: bytes = b"PFA1") -> bytes:
    size = len(payload) if length is None else length
    return b"PFA1" + magic + payload + struct.pack("<iI", size, flags) + b"PFA1"


def described(**changes: Any) -> bytes:
    blob: dict[str, Any] = {"type": "x", "fields": [], "snapshot-id": 1, "sequence-number": 1, "offset": 4, "length": 0}
    return json.dumps({"blobs": [blob | changes]}).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PFA1PFA1", "fewer than the 20"),
        (b"XXXX" + puffin(b'{"blobs":[]}')[4:], "does not begin and end with PFA1"),
        (puffin(b'{"blobs":[]}')[:-4] + b"XXXX", "does not begin and end with PFA1"),
        (puffin(b'{"blobs":[]}', magic=b"XXXX"), "footer does not begin with PFA1"),
        (puffin(b'{"blobs":[]}', length=-1), "claims -1 bytes"),
        (puffin(b'{"blobs":[]}', length=2**31 - 1), "claims 2147483647 bytes"),
        (puffin(b'{"blobs":[]}', flags=2), "unknown flags 0x2"),
        (puffin(b"[]"), "does not describe blobs"),
        (puffin(b"{}"), "does not describe blobs: KeyError"),
        (puffin(b"\xff"), "does not describe blobs: UnicodeDecodeError"),
        (puffin(b"[" * 100_000), "does not describe blobs"),
        (puffin(b'{"blobs":[1]}'), "does not describe blobs"),
        (puffin(b'{"blobs":[],"properties":{"a":1}}'), "1 where str is wanted"),
        (puffin(described(offset=3)), "the blob of 0 bytes at byte 3 is not before the footer"),
        (puffin(described(length=1)), "the blob of 1 bytes at byte 4 is not before the footer"),
        (puffin(described(length=-1)), "is not before the footer"),
        (puffin(described(offset=True)), "True where int is wanted"),
        (puffin(described(fields=["a"])), "'a' where int is wanted"),
        (puffin(described(type=None)), "None where str is wanted"),
    ],
)
def test_a_footer_that_is_wrong_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        read_footer(MemorySource(data))


def test_a_compressed_footer_is_refused_as_such() -> None:
    with pytest.raises(UnsupportedError, match="compressed with LZ4"):
        read_footer(MemorySource(puffin(b"xyz", flags=1)))


@given(st.integers(0, 2**32))
def test_a_damaged_file_gives_typed_errors_or_the_truth(seed: int) -> None:
    data, blobs = written()
    file, vector = next(iter(VECTORS.items()))
    for damage in damages(data, Random(seed), 5):
        source = MemorySource(damage.data)
        try:
            found = read_deletion_vector(
                source, blobs[0].offset, blobs[0].length, cardinality=3, referenced_data_file=file
            )
        except (CorruptFileError, UnsupportedError):
            continue
        assert found == vector, damage.what
