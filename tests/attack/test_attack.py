"""The short form of `make attack`, and everything that it ever found."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from attack.corpus import FILES
from attack.mutants import good_file, good_table, right_answers, rule_for
from attack.parts import PARTS
from attack.run import Attack, again

import formatkit
from formatkit.tck.rows import comparable, from_arrow
from support.mutations.avro_file import AvroFile
from support.mutations.orc_file import OrcFile
from support.mutations.parquet_file import ParquetFile

KEPT = sorted(path.parent for path in Path(__file__).with_name("found").glob("*/case.json"))
CASES = {"files": 120, "tables": 60, "storage": 30, "orphans": 4}
PARSERS: dict[str, Any] = {"parquet": ParquetFile, "orc": OrcFile, "avro": AvroFile.parse}


def test_a_short_attack_finds_nothing(tmp_path: Path) -> None:
    attack = Attack(seed=7, cases=CASES, folder=tmp_path)
    attack.run()
    assert attack.findings == {}, attack.summary()
    assert {part: attack.counts[f"cases of {part}"] for part in CASES} == CASES


def test_what_was_found_once_is_not_found_again(tmp_path: Path) -> None:
    results = {case.again: result for case, result in again(KEPT, tmp_path)}
    assert {place: result.findings for place, result in results.items() if result.findings} == {}


@pytest.mark.parametrize("name", [name for name in FILES if FILES[name].file_format in PARSERS])
def test_a_file_that_is_taken_apart_and_put_together_again_has_the_same_rows(name: str) -> None:
    """Else mutants would be refused for another reason than the edit."""
    parse = PARSERS[FILES[name].file_format]
    copy = parse(good_file(name)).to_bytes()
    scan = formatkit.read_file(copy, file_format=FILES[name].file_format)
    assert comparable(from_arrow(scan.schema, scan.to_arrow())) == right_answers(name)["all"]


@pytest.mark.parametrize("name", [name for name in FILES if FILES[name].file_format in PARSERS])
def test_the_same_seed_makes_the_same_mutant(name: str) -> None:
    parse = PARSERS[FILES[name].file_format]
    made = []
    for _ in range(2):
        file = parse(good_file(name))
        structure, done = file.edit(Random(5))
        made.append((structure, str(done), file.to_bytes()))
    assert made[0] == made[1]


def test_tables_have_files_of_every_structure() -> None:
    assert set(good_table("v3").structures()) == {"metadata", "manifest_list", "manifest", "puffin"}


def test_counts_of_pages_are_held_to_the_strictest_rule() -> None:
    edited = "chunks[0].pages[1].header.data_page_header.num_values: 4 became 6"
    assert rule_for("parquet.page_header", edited) == "same"
    assert rule_for("parquet.column_index", "chunks[0].column_index.min_values[0]: 1 became 2") == "hints"
    assert rule_for("parquet.page_body", "chunks[0].pages[1].body: a became b") == "any"


def test_shares_of_the_parts_are_the_whole_time() -> None:
    assert sum(part.share for part in PARTS.values()) == pytest.approx(1)
