"""Rules about files and folders that no other tool checks."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from support.repository import ROOT, SOURCE, tracked_files

FORMAT_FOLDERS = sorted({path.parent for path in SOURCE.glob("formats/*/*.py")})
CLAUSE = re.compile(r"^ {4}([A-Z])(\d+)  \S", re.MULTILINE)
# Spelled so that this file does not contain what it looks for.
FORBIDDEN = {
    "an index of packages": re.compile("--(extra-)?index" + "-url|--find" + "-links|registry" + r"\+https?://"),
    "a home folder": re.compile("/(root|home|Users)" + r"/[\w.]"),
    "a folder of one machine": re.compile("(?<![\\w.])/(work|farm|opt|mnt)" + r"/[\w.]"),
}


@pytest.mark.parametrize("folder", FORMAT_FOLDERS, ids=lambda folder: folder.name)
def test_every_format_folder_has_the_same_file_names(folder: Path) -> None:
    assert {"plugin.py", "reader.py", "writer.py"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_tracked_files_name_nothing_of_one_machine(what: str) -> None:
    hits = []
    for path in tracked_files():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
            if FORBIDDEN[what].search(line):
                hits.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert hits == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("requirements/*.txt")), ids=lambda path: path.name)
def test_pinned_requirements_are_versions_and_hashes_only(path: Path) -> None:
    allowed = re.compile(r"#|    #|    --hash=sha256:[0-9a-f]{64}( \\)?$|[\w.-]+(\[[\w,-]+\])?==[\w.+!]+( ; .+)? \\$")
    assert [line for line in path.read_text().splitlines() if not allowed.match(line)] == []


def test_no_lock_file_is_tracked() -> None:
    assert [path.name for path in tracked_files() if path.suffix == ".lock"] == []


def test_clauses_of_the_contract_are_numbered_once_and_without_gaps() -> None:
    found = [
        (letter, int(number))
        for path in sorted((SOURCE / "contract").glob("*.py"))
        for letter, number in CLAUSE.findall(path.read_text())
    ]
    assert [clause for clause, times in Counter(found).items() if times > 1] == []
    for letter in {letter for letter, _ in found}:
        numbers = sorted(number for each, number in found if each == letter)
        assert numbers == list(range(1, len(numbers) + 1)), letter
    assert {letter for letter, _ in found} == {"B", "K", "R", "S", "W"}
