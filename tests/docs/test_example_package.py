"""The example package, installed as a stranger's would be, keeps what its README says."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from support.installing import install, run_with
from support.repository import ROOT

PACKAGE = ROOT / "examples" / "formatkit-jsonl"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Built from a copy, because building leaves files behind.
    copy = shutil.copytree(PACKAGE, tmp_path_factory.mktemp("copy") / "package")
    folder = tmp_path_factory.mktemp("installed")
    install(ROOT, folder)  # not the checkout: what the wheel holds
    install(copy, folder)
    return folder


def test_its_five_line_test_and_the_command_agree(target: Path, tmp_path: Path) -> None:
    tests = shutil.copytree(PACKAGE / "tests", tmp_path / "tests")
    by_pytest = run_with(target, "-m", "pytest", "-p", "no:cacheprovider", "-q", str(tests), cwd=tmp_path)
    assert by_pytest.returncode == 0, by_pytest.stdout
    passed = re.search(r"(\d+) passed", by_pytest.stdout)
    assert passed is not None
    command = ("-m", "formatkit.cli", "tck", "jsonl", "--json")
    listed = run_with(target, *command, "--list", cwd=tmp_path)
    assert len(json.loads(listed.stdout)) == int(passed[1])
    # All checks once more would take as long again and prove the same.
    by_command = run_with(target, *command, "--workers", "1", "--check", "columns_*", cwd=tmp_path)
    assert by_command.returncode == 0, by_command.stderr
    (found,) = json.loads(by_command.stdout)["runs"]
    assert found["results"]


def test_it_uses_only_what_a_stranger_may_use() -> None:
    source = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py") if "tests" not in path.parts)
    imported = set(re.findall(r"^from (formatkit\.\w+)", source, re.MULTILINE))
    assert imported == {"formatkit.batches", "formatkit.contract", "formatkit.errors"}


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_file_that_was_cut_anywhere_is_corrupt(target: Path, tmp_path: Path, codec: str) -> None:
    program = f"""
import formatkit, pyarrow as pa
from formatkit.errors import CorruptFileError
from formatkit.io import MemorySource
from formatkit.contract import OpenOptions, ReadOptions
from formatkit_jsonl import JsonLinesFormat
codec = {{"write.jsonl.compression-codec": {codec!r}}}
formatkit.write_file("a.jsonl", pa.table({{"n": [1, 2, None]}}), properties=codec)
data = open("a.jsonl", "rb").read()
for length in range(len(data)):
    try:
        file = JsonLinesFormat().reader().open(MemorySource(data[:length]), OpenOptions())
        list(file.read(ReadOptions(projection=file.schema)).batches)
    except CorruptFileError as error:
        assert "<memory>" in str(error), error
    else:
        # Nothing is missing but the end of the last line.
        assert data[length:] == b"\\n", length
"""
    outcome = run_with(target, "-c", program, cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
