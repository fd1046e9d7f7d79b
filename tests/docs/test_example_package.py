"""The example package, installed as a stranger's would be, keeps what its README says."""

from __future__ import annotations

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
    install(copy, folder)
    return folder


def test_it_passes_its_own_test(target: Path, tmp_path: Path) -> None:
    tests = shutil.copytree(PACKAGE / "tests", tmp_path / "tests")
    outcome = run_with(target, "-m", "pytest", "-p", "no:cacheprovider", str(tests), cwd=tmp_path)
    assert "1 passed" in outcome.stdout, outcome.stdout


def test_it_passes_the_checks_of_its_report_and_no_others_exist(target: Path) -> None:
    options = ("-v", "-p", "no:cacheprovider", "-k", "jsonl", "tests/tck/test_formats.py")
    outcome = run_with(target, "-m", "pytest", *options, cwd=ROOT)
    assert outcome.returncode == 0, outcome.stdout
    passed = set(re.findall(r"::test_(\w+)\[jsonl\] PASSED", outcome.stdout))
    report = re.findall(r"^\| [RW][^|]+\| ([^|]+)\. \| passed \|$", (PACKAGE / "README.md").read_text(), re.MULTILINE)
    assert passed == {sentence.lower().replace(" ", "_") for sentence in report}


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
