"""What only a process of its own can show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from formatkit.cli import tables
from support.shop import Command, Shop

FULL = Path("/dev/full")
FORMATKIT = [sys.executable, "-m", "formatkit.cli"]


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run([*FORMATKIT, *arguments], capture_output=True, text=True, check=False, env=environment)


def test_version_is_printed() -> None:
    outcome = run("--version")
    assert outcome.stdout.startswith("formatkit 0.")
    assert outcome.returncode == 0


@pytest.mark.parametrize("arguments", [(), ("--help",), ("scan", "--help")])
def test_help_is_no_error(arguments: tuple[str, ...]) -> None:
    outcome = run(*arguments)
    assert "Usage: formatkit" in outcome.stdout
    assert (outcome.returncode, outcome.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [("scan",), ("nonsense",), ("formats", "--nonsense")])
def test_wrong_usage_is_one_line(arguments: tuple[str, ...]) -> None:
    outcome = run(*arguments)
    assert outcome.returncode == 2
    assert outcome.stderr.count("\n") == 1
    assert "--help" in outcome.stderr


def test_catalogs_come_from_the_configuration_of_pyiceberg(shop: Shop) -> None:
    options = dict(zip(shop.options[::2], shop.options[1::2], strict=True))
    outcome = run(
        "count",
        "shop.db.orders",
        PYICEBERG_CATALOG__SHOP__TYPE="sql",
        PYICEBERG_CATALOG__SHOP__URI=options["--catalog-uri"],
        PYICEBERG_CATALOG__SHOP__WAREHOUSE=options["--warehouse"],
    )
    assert (outcome.stdout, outcome.returncode) == ("53\n", 0)


@pytest.mark.parametrize("json_flag", [(), ("--json",)])
def test_a_reader_that_goes_away_ends_the_program_quietly(shop: Shop, json_flag: tuple[str, ...]) -> None:
    process = subprocess.Popen(
        [*FORMATKIT, "scan", shop.data_file, *json_flag], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait() == 141


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("--help",),
        ("formats", "--json"),
        ("scan", "FILE"),
        ("scan", "FILE", "--json"),
        ("explain", "FILE"),
        ("count", "FILE"),
        ("inspect", "FILE"),
        ("validate", "FILE"),
        ("doctor",),
    ],
)
def test_a_full_disk_under_the_output_is_one_line(shop: Shop, arguments: tuple[str, ...]) -> None:
    command = [shop.data_file if argument == "FILE" else argument for argument in arguments]
    # Text is written at once, JSON when there is much of it or the command ends.
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if "--json" in arguments else "1"}
    with FULL.open("w") as full:
        outcome = subprocess.run(
            [*FORMATKIT, *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment
        )
    assert outcome.returncode == 2
    assert outcome.stderr == (
        "formatkit: the output cannot be written: No space left on device; free space, or send it elsewhere\n"
    )


@pytest.mark.parametrize("arguments", [("--help",), ("formats",), ("count", "FILE"), ("explain", "FILE")])
def test_an_output_that_is_closed_ends_every_command_quietly(shop: Shop, arguments: tuple[str, ...]) -> None:
    command = [shop.data_file if argument == "FILE" else argument for argument in arguments]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        outcome = subprocess.run([*FORMATKIT, *command], stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (outcome.returncode, outcome.stderr) == (141, b"")


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
def test_an_error_that_cannot_be_told_still_has_its_exit_code() -> None:
    with FULL.open("w") as full:
        assert subprocess.run([*FORMATKIT, "scan"], stdout=full, stderr=full, check=False).returncode == 2


def test_output_is_whole_in_any_locale(shop: Shop) -> None:
    outcome = run("scan", shop.data_file, "--json", "--limit", "1", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert json.loads(outcome.stdout) == {"Id": 100, "name": "n0"}


def test_a_fault_is_one_line_and_its_traceback_is_for_those_who_ask(
    command: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(tables, "load_table", fail)
    outcome = command("count", shop.data_file)
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "unexpected ZeroDivisionError: a bug" in outcome.err
    assert "Traceback" in command("--debug", "count", shop.data_file).err


@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["short", "debug"])
def test_neither_lines_nor_tracebacks_show_passwords(
    command: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch, debug: list[str]
) -> None:
    uri = "nosuch://me:hunter2SECRET@host/db"
    refused = command(*debug, "count", "db.t", "--uri", uri)
    assert (refused.code, "nosuch://***@host/db" in refused.err) == (2, True)
    assert "hunter2SECRET" not in refused.err

    def fail(*_: object) -> None:
        raise ZeroDivisionError(uri)

    monkeypatch.setattr(tables, "load_table", fail)
    assert "hunter2SECRET" not in command(*debug, "count", shop.data_file).err
