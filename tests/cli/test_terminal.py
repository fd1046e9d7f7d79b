"""What names and values say to a terminal is shown, and not obeyed."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.io.fsspec import FsspecFileIO

import formatkit
from formatkit.cli.terminal import note, print_table
from formatkit.errors import ColumnNotFoundError, ConfigurationError, FormatkitError, printable
from formatkit.write.commit.cleanup import UncommittedFiles
from support.canary import metadata_with
from support.shop import Command

# Clears the screen, in two ways; returns to the start of the line; rings; reverses what follows; is markup of rich.
HOSTILE = "x\x1b[2J\x9b2J\r\x07\x7f\u202e\u2066\u200b\u2028[red]:warning:[link=http://e]\nformatkit: all is well"
ROWS = pa.table({HOSTILE: [HOSTILE, None], "id": [1, 2]})


def assert_harmless(text: str) -> None:
    assert text
    bad = {character for character in text if not character.isprintable() and character != "\n"}
    assert bad == set(), text
    assert "\nformatkit: all is well" not in text


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / f"{HOSTILE.replace('/', '')}.parquet"
    pq.write_table(ROWS, path)  # formatkit itself would write other names
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("table")
    with load_catalog("t", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri()) as catalog:
        catalog.create_namespace("db")
        made = catalog.create_table("db.t", ROWS.schema)
        formatkit.append(made, ROWS)
        return made.metadata_location


@pytest.mark.parametrize(
    "command_line", [["scan"], ["scan", "--json"], ["explain", "--analyze"], ["explain", "--json"]]
)
def test_a_table_and_a_file_with_hostile_names_are_shown(
    command: Command, file: Path, table: str, command_line: list[str]
) -> None:
    for target in (str(file), table):
        done = command(command_line[0], target, *command_line[1:])
        assert done.code == 0, done.err
        assert_harmless(done.out)


def test_json_says_the_same_name_in_its_own_escapes(command: Command, file: Path) -> None:
    rows = [json.loads(line) for line in command("scan", str(file), "--json").out.splitlines()]
    assert rows[0] == {HOSTILE: HOSTILE, "id": 1}


def test_a_file_with_hostile_names_is_inspected(command: Command, file: Path) -> None:
    done = command("inspect", str(file))
    assert done.code == 0
    assert_harmless(done.out)
    assert "\\x1b[2J" in done.out
    assert_harmless(command("inspect", str(file), "--json").out)


@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["short", "debug"])
@pytest.mark.parametrize("arguments", [["--select", "nothing"], ["--where", "nothing = 1"], ["--format", HOSTILE]])
def test_error_lines_show_hostile_names(command: Command, file: Path, debug: list[str], arguments: list[str]) -> None:
    done = command(*debug, "scan", str(file), *arguments)
    assert done.code == 2
    assert_harmless(done.err)


def test_errors_about_files_that_are_no_files_show_their_names(command: Command, tmp_path: Path) -> None:
    missing = str(tmp_path / HOSTILE.replace("/", ""))
    for arguments in (("scan", missing), ("inspect", missing), ("count", f"{missing}.metadata.json"), (HOSTILE,)):
        done = command(*arguments)
        assert done.code == 2
        assert_harmless(done.err)


def test_the_message_of_an_error_is_fit_for_a_traceback() -> None:
    error = ColumnNotFoundError("a", [HOSTILE])
    assert_harmless(str(error))
    assert HOSTILE in error.message
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.message) == (str(error), error.message)
    assert str(FormatkitError("plain: \u00e9 \u4e2d")) == "plain: \u00e9 \u4e2d"


def test_explanations_show_hostile_names(table: str) -> None:
    loaded = formatkit.load_table(table)
    scan = formatkit.scan(loaded, where="id < 5")
    scan.to_arrow()
    assert_harmless(str(scan.explain(analyze=True)))
    assert_harmless(scan.buckets(2).explain())
    assert HOSTILE in scan.explain().columns


def test_warnings_in_logs_show_hostile_properties(table: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        formatkit.load_table(metadata_with(table, {f"s3.{HOSTILE}": "x"}))
    assert_harmless(caplog.messages[0])
    with pytest.raises(ConfigurationError) as caught:
        formatkit.load_table(metadata_with(table, {"py-io-impl": HOSTILE}))
    assert_harmless(str(caught.value))


def test_warnings_in_logs_show_hostile_locations(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / HOSTILE.replace("/", "")
    folder.mkdir()
    with caplog.at_level(logging.WARNING), UncommittedFiles(FsspecFileIO({})) as files:
        files.add(str(folder))
    assert "cannot delete" in caplog.messages[0]
    assert_harmless(caplog.messages[0])


def test_titles_and_notes_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([HOSTILE], [[HOSTILE]], title=HOSTILE)
    note(HOSTILE)
    shown = capsys.readouterr().out
    assert_harmless(shown)
    assert shown.count("[red]:warning:[link=http://e]") == 4


@pytest.mark.parametrize(
    "code", [*range(0x20), 0x7F, *range(0x80, 0xA0), 0x2028, 0x202A, 0x202E, 0x2066, 0x2069, 0xFEFF]
)
def test_every_character_that_a_terminal_obeys_is_escaped(code: int) -> None:
    assert printable(f"a{chr(code)}b") == f"a{repr(chr(code))[1:-1]}b"
    assert printable(f"a{chr(code)}b").isprintable()
