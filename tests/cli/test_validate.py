from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import formatkit
from support.lies import change_entries, long_bound, narrow_orc, set_bound
from support.operated_tables import filled_table
from support.shop import Command, Shop


@pytest.mark.parametrize("how", ["catalog", "metadata", "file"])
def test_what_is_sound_ends_with_zero(command: Command, shop: Shop, how: str) -> None:
    target = {
        "catalog": ("db.orders", *shop.options),
        "metadata": (shop.table.metadata_location,),
        "file": (shop.data_file,),
    }[how]
    outcome = command("validate", *target)
    assert outcome.code == 0
    assert "Sound: " in outcome.out
    document = command("validate", *target, "--json").document
    assert document["ok"]
    assert document["findings"] == []
    assert document["checked"]["rows"] >= 50


def test_an_error_ends_with_one(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    formatkit.write_file(path, pa.table({"id": list(range(100))}))
    narrow_orc(path, 1, 10)
    outcome = command("validate", str(path))
    assert outcome.code == 1
    assert "statistics-wrong" in outcome.out
    assert "Not sound" in outcome.out
    outcome = command("validate", str(path), "--json")
    assert outcome.code == 1
    assert {finding["code"] for finding in outcome.document["findings"]} == {"statistics-wrong"}
    assert set(outcome.document["findings"][0]) == {"severity", "code", "location", "said", "found", "advice"}


def test_a_damaged_metadata_file_is_a_finding(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "v1.metadata.json"
    path.write_text("{")
    outcome = command("validate", str(path), "--json")
    assert outcome.code == 1
    assert [finding["code"] for finding in outcome.document["findings"]] == ["metadata-corrupt"]


def test_metadata_alone_and_one_snapshot(command: Command, shop: Shop) -> None:
    location = shop.table.metadata_location
    assert "rows" not in command("validate", location, "--metadata-only", "--json").document["checked"]
    first = shop.table.snapshots()[0].snapshot_id
    checked = command("validate", location, "--snapshot-id", str(first), "--json").document["checked"]
    assert (checked["snapshots"], checked["rows"]) == (1, 3)


def test_wrong_usage_ends_with_two(command: Command, shop: Shop, tmp_path: Path) -> None:
    assert command("validate", str(tmp_path / "none.parquet")).code == 2
    assert command("validate", str(tmp_path / "none.metadata.json")).code == 2
    assert command("validate", shop.table.metadata_location, "--snapshot-id", "5").code == 2
    assert command("validate", shop.data_file, "--metadata-only").code == 2
    assert command("validate").code == 2


def test_reading_commands_verify_what_they_skip(command: Command, tmp_path: Path) -> None:
    table = filled_table(tmp_path).table

    def narrow(entry: dict[str, dict[str, object]]) -> None:
        set_bound(entry, "lower_bounds", 1, long_bound(12))
        set_bound(entry, "upper_bounds", 1, long_bound(12))

    change_entries(table, narrow)
    location = table.metadata_location
    assert command("count", location, "-w", "id = 3").out == "0\n"
    for arguments in (("count",), ("scan", "--json"), ("explain", "--analyze")):
        outcome = command(*arguments, location, "-w", "id = 3", "--verify-skipping")
        assert outcome.code == 2
        assert "column metrics" in outcome.err
