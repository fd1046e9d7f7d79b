"""`formatkit tck`: what it runs, shows and writes, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from formatkit.tck import Layer, checks
from support.shop import Command
from support.troubled import install_troubled_formats

PLAIN = "splits_of_any_size_hold_every_row_once_in_order"
RANDOM = next(name for name in checks() if name.startswith("splits_of_random_files"))
OF_BATCHES = next(name for name, check in checks().items() if check.layer is Layer.BATCH)
FORMATKIT = [sys.executable, "-m", "formatkit.cli"]
HERE = ("--workers", "1")


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of processes in which formats with troubles are installed."""
    return install_troubled_formats(tmp_path_factory.mktemp("installed"))


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*FORMATKIT, "tck", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_a_format_that_keeps_the_contract_ends_well(command: Command) -> None:
    outcome = command("tck", "arrow", "--check", PLAIN, *HERE)
    assert outcome.code == 0
    assert re.search(r"✓ arrow × pyarrow.RecordBatch  1 passed  [\d.]+ s", outcome.out)
    assert outcome.out.endswith("The check holds.\n")


def test_every_batch_type_of_a_format_is_run_unless_one_is_named(command: Command) -> None:
    both = command("tck", "parquet", "-c", PLAIN, "--json", *HERE).document
    assert [run["name"] for run in both["runs"]] == ["parquet × polars.DataFrame", "parquet × pyarrow.RecordBatch"]
    one = command("tck", "parquet", "-c", PLAIN, "--json", "--batch", "arrow", *HERE).document
    assert [run["name"] for run in one["runs"]] == ["parquet × pyarrow.RecordBatch"]


def test_checks_of_layer_one_are_asked_of_the_batch_types(command: Command) -> None:
    of_format = command("tck", "arrow", "-c", OF_BATCHES, "--json", *HERE).document
    assert [run["name"] for run in of_format["runs"]] == ["batch × pyarrow.RecordBatch"]
    of_batches = command("tck", "batches", "-b", "polars", "-c", OF_BATCHES, "--json", *HERE).document
    assert [run["name"] for run in of_batches["runs"]] == ["batch × polars.DataFrame"]


def test_a_failure_shows_clause_example_and_how_to_run_it_again(environment: dict[str, str]) -> None:
    outcome = run(environment, "raising", "--check", "splits_of_*", "--examples", "3")
    assert outcome.returncode == 1
    assert "FAILED raising × pyarrow.RecordBatch: Splits of any size hold every row once in order" in outcome.stdout
    assert "  R5  " in outcome.stdout
    assert r"ZeroDivisionError: \x1b[31mdivided by zero" in outcome.stdout
    assert "Smallest example that fails:" in outcome.stdout
    again = f"formatkit tck raising --batch pyarrow.RecordBatch --check {RANDOM} --examples 3"
    assert f"Again: {again}\n" in outcome.stdout
    assert re.search(r"✗ raising × pyarrow.RecordBatch  \d failed", outcome.stdout)
    assert re.search(r"^(\d) of \1 checks fail\.$", outcome.stdout, re.MULTILINE)
    assert "a plugin that prints" not in outcome.stdout


def test_a_crash_is_a_failure_and_known_failures_are_strict(environment: dict[str, str]) -> None:
    known = (f"{PLAIN}=it crashes", f"{RANDOM}=so does this")
    listed = [word for each in known for word in ("--known", each)]
    outcome = run(environment, "crashing", "-c", PLAIN, *listed, "--json")
    (result,) = json.loads(outcome.stdout)["runs"][0]["results"]
    assert (outcome.returncode, result["outcome"], result["reason"]) == (0, "known", "it crashes")
    assert "SIGSEGV" in result["message"]


def test_a_known_failure_that_passes_is_a_failure(command: Command, tmp_path: Path) -> None:
    listed = tmp_path / "known.toml"
    listed.write_text(f'[arrow]\n{PLAIN} = "long ago"\n')
    outcome = command("tck", "arrow", "-c", PLAIN, "--known", str(listed), *HERE)
    assert outcome.code == 1
    assert "it passed, but it is listed as a known failure: long ago" in outcome.out


def test_reports_are_written_in_the_form_that_their_names_tell(command: Command, tmp_path: Path) -> None:
    paths = [tmp_path / "new" / f"tck.{form}" for form in ("html", "md", "json", "svg")]
    wanted = [word for path in paths for word in ("--report", str(path))]
    outcome = command("tck", "arrow", "-c", PLAIN, *wanted, *HERE)
    assert [path.read_text()[:9] for path in paths] == ["<!doctype", "**formatk", '{\n "schem', "<svg xmln"]
    assert f"Wrote {paths[0]}" in outcome.out


def test_checks_are_listed(command: Command) -> None:
    everything = command("tck", "--list", "--json").document
    assert [each["check"] for each in everything] == list(checks())
    some = command("tck", "arrow", "--list", "--layer", "2", "--json").document
    assert {each["layer"] for each in some} == {2}
    assert PLAIN in command("tck", "--list", "-c", "splits*").out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "name a format"),
        (("nonsense",), "no plugin serves file format 'nonsense'"),
        (("arrow", "-c", "splits_of_any_sise"), "there is no check called splits_of_any_sise"),
        (("arrow", "-c", f"{PLAIN}x"), f"did you mean {PLAIN}?"),
        (("arrow", "-b", "pandas"), "arrow has no batch type 'pandas'; it has pyarrow.RecordBatch"),
        (("batches", "-l", "2"), "layers 2 and 3 need a format"),
        (("batches", "-c", PLAIN), "no check that was chosen concerns batches"),
        (("arrow", "--report", "report.txt"), "it ends in one of .html, .json, .md, .svg"),
        (("arrow", "--known", "nothing"), "--known takes CHECK=REASON or a .toml file"),
        (("arrow", "--known", "no_such_check=reason"), "there is no check called no_such_check"),
        (("arrow", "--known", "missing.toml"), "cannot read the known failures in missing.toml"),
        (("arrow", "--layer", "4"), "--layer"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_the_user_can_mend_is_one_line(command: Command, arguments: tuple[str, ...], complaint: str) -> None:
    outcome = command("tck", *arguments)
    assert (outcome.code, outcome.err.count("\n"), outcome.out) == (2, 1, "")
    assert complaint in outcome.err


def test_without_hypothesis_one_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "hypothesis.py").write_text("raise ModuleNotFoundError('hypothesis', name='hypothesis')\n")
    outcome = run({**os.environ, "PYTHONPATH": str(tmp_path)}, "arrow")
    assert outcome.returncode == 2
    assert outcome.stderr == 'formatkit: the conformance kit needs hypothesis; run: pip install "formatkit[tck]"\n'


def test_pytest_is_not_needed(tmp_path: Path) -> None:
    (tmp_path / "pytest.py").write_text("raise ModuleNotFoundError('pytest', name='pytest')\n")
    assert run({**os.environ, "PYTHONPATH": str(tmp_path)}, "arrow", "-c", PLAIN, *HERE).returncode == 0


def test_an_interrupt_ends_the_command_and_its_processes(environment: dict[str, str], tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*FORMATKIT, "tck", "hanging", "-c", "splits_of_*"],
        env={**environment, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: bool(list(tmp_path.iterdir())))
    os.killpg(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (130, "formatkit: interrupted\n")
    wait_until(lambda: not has_members(process.pid))
    assert list(tmp_path.iterdir()) == []


def has_members(process_group: int) -> bool:
    try:
        os.killpg(process_group, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
