"""Bytes that are not a Parquet file, or no longer one, and everything that must be closed whatever happens."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from formatkit.contract import ByteSource, Encryption, OpenOptions, ReadOptions, Split
from formatkit.errors import ConfigurationError, CorruptFileError, FileMissingError, FormatkitError, InvalidDataError
from formatkit.formats.parquet.reader import ParquetReader
from formatkit.io import LocalSource
from support.foreign_parquet import BYTE_ARRAY, FIXED, INT64, TIMESTAMP_MILLIS, UTF8, leaf, parquet_bytes, with_schema
from support.mutations.parquet_file import ParquetFile
from support.parquet_reading import open_bytes, read_batches, read_rows

TABLE = pa.table(
    {
        "a": range(300),
        "s": [f"value {number}" for number in range(300)],
        "l": pa.array([[number, None] if number % 3 else None for number in range(300)]),
    }
)
GOOD = parquet_bytes(TABLE, row_group_size=100, compression="zstd", use_dictionary=False)


def open_descriptors() -> dict[str, str]:
    found = {}
    for descriptor in Path("/proc/self/fd").iterdir():
        # The descriptor of the listing itself is gone by now.
        with suppress(FileNotFoundError):
            found[descriptor.name] = str(descriptor.readlink())
    return found


@contextmanager
def no_handle_left() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.parquet"


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "0 bytes"),
        (b"PAR1", "4 bytes"),
        (b"Obj\x01" + b"x" * 100, "begins with b'Obj"),
        (b"a,b\n1,2\n" * 10, "ends with"),
        (GOOD[:-1], "truncated"),
        (GOOD[: len(GOOD) // 2], "truncated"),
        (b"PAR1" + struct.pack("<I", 10**6) + b"PAR1", "claims 1000000 bytes"),
        (b"PAR1" + b"\xff" * 20 + struct.pack("<I", 20) + b"PAR1", "corrupt"),
        (b"PAR1" + b"\x00" * 20 + struct.pack("<I", 20) + b"PAR1", "corrupt"),
        (b"PAR1" + struct.pack("<I", 0) + b"PAR1", "corrupt"),
    ],
)
def test_what_is_not_a_parquet_file_is_refused_by_name(path: Path, data: bytes, found: str) -> None:
    path.write_bytes(data)
    source = LocalSource(path)
    with no_handle_left():
        with pytest.raises(CorruptFileError, match=found) as failure:
            ParquetReader().open(source, OpenOptions())
        source.close()
    assert str(path) in str(failure.value)
    assert vars(failure.value)["location"] == str(path)


def test_a_missing_file_is_reported_as_missing(path: Path) -> None:
    with pytest.raises(FileMissingError, match=r"data\.parquet"):
        ParquetReader().open(LocalSource(path), OpenOptions())


def test_damaged_pages_raise_and_name_the_file_instead_of_ending_the_rows(path: Path) -> None:
    metadata = pq.ParquetFile(pa.BufferReader(GOOD)).metadata
    middle = metadata.row_group(1).column(1).data_page_offset
    path.write_bytes(GOOD[:middle] + b"\xa5" * 300 + GOOD[middle + 300 :])
    source: ByteSource = LocalSource(path)
    with no_handle_left():
        file = ParquetReader().open(source, OpenOptions())
        with pytest.raises(CorruptFileError, match=r"data\.parquet"):
            read_batches(file, batch_rows=50)
        source.close()


def test_a_file_that_was_cut_after_it_was_opened_raises(path: Path) -> None:
    path.write_bytes(GOOD)
    source = LocalSource(path)
    file = ParquetReader().open(source, OpenOptions())
    os.truncate(path, 200)
    with pytest.raises(CorruptFileError, match=r"data\.parquet"):
        read_batches(file)
    source.close()


def test_fewer_rows_than_the_footer_promises_are_not_the_end_of_the_data() -> None:
    short = parquet_bytes(TABLE.slice(0, 60), row_group_size=100, compression="none", use_dictionary=False)
    (length,) = struct.unpack("<I", short[-8:-4])
    footer = short[-8 - length : -8].replace(b"\x16\x78", b"\x16\x7a")
    file = open_bytes(short[: -8 - length] + footer + short[-8:])
    assert file.row_count == 61
    with pytest.raises(CorruptFileError):
        read_batches(file)


def test_chunks_that_contradict_the_schema_raise_instead_of_ending_the_process() -> None:
    file = open_bytes(with_schema(parquet_bytes(TABLE.select(["l"])), leaf("l", INT64)))
    with pytest.raises(CorruptFileError):
        _ = file.split_offsets
    with pytest.raises(CorruptFileError):
        read_batches(file, split=Split(0, 100))


@pytest.mark.parametrize("read_all", [True, False])
def test_reads_leave_no_handle_whether_finished_or_closed_early(path: Path, read_all: bool) -> None:
    path.write_bytes(GOOD)
    source = LocalSource(path)
    with no_handle_left():
        file = ParquetReader().open(source, OpenOptions())
        batches = file.read(ReadOptions(projection=file.schema, batch_rows=10)).batches
        next(batches)
        if read_all:
            assert len(list(batches)) == 29
        else:
            batches.close()
        # The source may keep one for itself.
        assert list(open_descriptors().values()).count(str(path)) <= 1
        file.close()
        source.close()


def test_a_read_that_never_starts_holds_nothing(path: Path) -> None:
    path.write_bytes(GOOD)
    source = LocalSource(path)
    with no_handle_left():
        file = ParquetReader().open(source, OpenOptions())
        file.read(ReadOptions(projection=file.schema)).batches.close()
        source.close()


def test_values_that_the_iceberg_type_cannot_hold_are_invalid_data() -> None:
    stored = with_schema(
        parquet_bytes(pa.table({"t": [2**62]}), store_schema=False), leaf("t", INT64, converted=TIMESTAMP_MILLIS)
    )
    with pytest.raises(InvalidDataError, match="'t'"):
        read_batches(open_bytes(stored))


def test_random_damage_never_raises_anything_but_an_error_of_the_package() -> None:
    choose = random.Random(3)
    files = [parquet_bytes(TABLE, row_group_size=100, compression=codec) for codec in ("none", "snappy", "zstd")]
    for _ in range(300):
        data = bytearray(choose.choice(files))
        for _ in range(choose.randint(1, 3)):
            data[choose.randrange(len(data))] = choose.randrange(256)
        try:
            file = open_bytes(bytes(data))
            file.describe()
            rows = sum(batch.num_rows for batch in read_batches(file))
        except FormatkitError:
            continue
        assert rows == file.row_count


KEY, AAD = b"0123456789abcdef", b"table/file-1"


def encrypted(*, plaintext_footer: bool = False, store_aad_prefix: bool = False) -> bytes:
    properties = pe.create_encryption_properties(  # type: ignore[attr-defined]
        KEY, aad_prefix=AAD, store_aad_prefix=store_aad_prefix, plaintext_footer=plaintext_footer
    )
    return parquet_bytes(TABLE, row_group_size=100, encryption_properties=properties)


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_an_encrypted_file_is_read_with_its_key_and_aad_prefix(plaintext_footer: bool) -> None:
    file = open_bytes(encrypted(plaintext_footer=plaintext_footer), encryption=Encryption(key=KEY, aad_prefix=AAD))
    assert file.row_count == 300
    assert file.describe()["encrypted"]
    assert read_rows(file) == TABLE.to_pylist()


@pytest.mark.parametrize(
    "encryption", [Encryption(key=b"f" * 16, aad_prefix=AAD), Encryption(key=KEY, aad_prefix=b"other")]
)
def test_a_wrong_key_or_aad_prefix_is_refused(encryption: Encryption) -> None:
    with pytest.raises(CorruptFileError, match="decrypt"):
        open_bytes(encrypted(), encryption=encryption)


def test_an_encrypted_file_without_a_key_says_that_one_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="encrypted"):
        open_bytes(encrypted())


def test_encrypted_columns_without_a_key_say_that_one_is_needed() -> None:
    file = open_bytes(encrypted(plaintext_footer=True))
    assert file.row_count == 300
    with pytest.raises(ConfigurationError, match="encrypted"):
        read_batches(file)


def test_a_key_of_impossible_length_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="key"):
        open_bytes(encrypted(), encryption=Encryption(key=b"short"))


def test_a_plain_file_is_not_taken_for_an_encrypted_one() -> None:
    with pytest.raises(CorruptFileError, match="plaintext"):
        open_bytes(GOOD, encryption=Encryption(key=KEY))


def test_text_that_is_not_utf8_does_not_break_statistics() -> None:
    table = pa.table({"s": pa.array([b"\xff\xfe", b"a"], pa.binary())})
    file = open_bytes(with_schema(parquet_bytes(table, store_schema=False), leaf("s", BYTE_ARRAY, converted=UTF8)))
    assert file.row_count == 2


@pytest.mark.parametrize("change", [1, -1, -3], ids=["one more", "one less", "none"])
@pytest.mark.parametrize("options", [{}, {"split": Split(0, 10_000_000)}], ids=["whole", "split"])
def test_a_row_group_with_other_columns_than_the_schema_is_corrupt(change: int, options: dict[str, Any]) -> None:
    parts = ParquetFile(GOOD)
    columns = parts.footer["row_groups"].value[1]["columns"].value
    columns[:] = columns + columns[:1] if change > 0 else columns[:change]
    file = open_bytes(parts.to_bytes())
    with pytest.raises(CorruptFileError, match=f"has {3 + change} columns"):
        read_batches(file, **options)


@pytest.mark.parametrize("codec", [8, 99, -1, 2**31 - 1])
def test_a_codec_with_a_number_that_nobody_knows_is_corrupt(codec: int) -> None:
    parts = ParquetFile(GOOD)
    parts.footer["row_groups"].value[1]["columns"].value[1]["meta_data"]["codec"].value = codec
    with pytest.raises(FormatkitError):
        read_batches(open_bytes(parts.to_bytes()))


def test_a_file_without_row_groups_has_no_rows() -> None:
    parts = ParquetFile(GOOD)
    parts.footer["row_groups"].value, parts.footer["num_rows"].value = [], 0
    assert read_rows(open_bytes(parts.to_bytes())) == []


@pytest.mark.parametrize("length", [-1, 2**31, 2**63 - 1])
def test_a_type_length_that_no_value_can_have_is_corrupt(length: int) -> None:
    stored = parquet_bytes(pa.table({"f": pa.array([b"abc"], pa.binary(3))}), store_schema=False)
    changed = with_schema(stored, leaf("f", FIXED, length=length))
    with pytest.raises(CorruptFileError):
        read_rows(open_bytes(changed))
