from __future__ import annotations

import pytest

from formatkit.write.orphans.names import checksummed_name, is_data_name, is_metadata_name, is_table_metadata
from support.orphans import DATA_NAMES, METADATA_NAMES

UUID = "0b5f0a52-6d3c-4b0e-9a61-3f1c7a2d9e48"
ALL = [*DATA_NAMES.values(), *METADATA_NAMES.values()]


def fits(name: str) -> bool:
    checked = checksummed_name(name) or name
    return is_data_name(checked) or is_metadata_name(checked)


@pytest.mark.parametrize("name", ALL)
def test_names_of_writers_are_known(name: str) -> None:
    assert fits(name.format(UUID))


def test_data_and_metadata_are_told_apart() -> None:
    assert not any(is_metadata_name(name.format(UUID)) for name in DATA_NAMES.values())
    assert not any(is_data_name(name.format(UUID)) for name in METADATA_NAMES.values())


@pytest.mark.parametrize(
    "more", ["#bak", "#", "?", "?versionId=1", "%23", ".bak", "~", " ", "\n", "\t", "\\", "\x00", "\x1b[2J", "/", "é"]
)
def test_whatever_is_added_to_a_name_makes_it_a_strangers(more: str) -> None:
    for name in ALL:
        whole = name.format(UUID)
        assert not fits(whole + more)
        assert not fits(more + whole)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "x.parquet",
        "part-00000.parquet",
        f"part-00000-{UUID}-c000.snappy.parquet",
        f"{UUID}.parquet",
        f"00000-{UUID}-00001.csv",
        f"00000-{UUID.upper()}-00001.parquet",
        f"{5 * chr(0x660)}-{UUID}-00001.parquet",
        "catalog.db",
        "version-hint.text",
        ".version-hint.text.crc",
        f"orphans-20240102T030405-{UUID}.jsonl",
        "_SUCCESS",
        f"00000-{UUID}-00001.parquet.crc",
    ],
)
def test_names_that_no_writer_gives_are_not_known(name: str) -> None:
    assert not fits(name)


@pytest.mark.parametrize("name", ["x.metadata.json", "00000.gz.metadata.json", "v1.metadata.json.gz"])
def test_metadata_of_any_writer_is_noticed(name: str) -> None:
    assert is_table_metadata(name)
