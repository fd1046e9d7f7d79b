from __future__ import annotations

import pytest

from support.shop import Command, Shop


@pytest.fixture(params=["catalog", "metadata", "file"])
def target(request: pytest.FixtureRequest, shop: Shop) -> tuple[str, ...]:
    """The three ways to name what is read; each holds the fifty new rows."""
    where = {
        "catalog": ("db.orders", *shop.options),
        "metadata": (shop.table.metadata_location,),
        "file": (shop.data_file,),
    }
    return where[request.param]


def test_scan_prints_rows_as_json_lines(command: Command, target: tuple[str, ...]) -> None:
    outcome = command("scan", *target, "--where", "Id >= 100 and Id < 102", "--json")
    assert outcome.lines == [{"Id": 100, "name": "n0"}, {"Id": 101, "name": "n1"}]
    assert outcome.code == 0


def test_scan_shows_a_table(command: Command, target: tuple[str, ...]) -> None:
    outcome = command("scan", *target, "-w", "Id = 100", "-s", "name", "-s", "Id,_pos")
    assert ["name", "Id", "_pos"] in [line.split() for line in outcome.out.splitlines()]
    assert ["n0", "100", "0"] in [line.split() for line in outcome.out.splitlines()]
    assert "1 row\n" in outcome.out


def test_count_counts(command: Command, target: tuple[str, ...]) -> None:
    assert command("count", *target, "--where", "Id >= 100").out == "50\n"
    assert command("count", *target, "--where", "Id >= 100", "--json").document == {"count": 50}


def test_explain_is_text_or_one_document(command: Command, target: tuple[str, ...]) -> None:
    text = command("explain", *target, "--where", "Id >= 100")
    assert text.code == 0
    assert "parquet" in text.out
    assert command("explain", *target, "--where", "Id >= 100", "--json").document["tasks"]


def test_more_rows_than_fit_are_announced(command: Command, shop: Shop) -> None:
    outcome = command("scan", shop.data_file)
    assert "n19" in outcome.out
    assert "n20" not in outcome.out
    assert "there are more" in outcome.out


def test_an_explicit_limit_is_shown_whole(command: Command, shop: Shop) -> None:
    outcome = command("scan", shop.data_file, "--limit", "30")
    assert "n29" in outcome.out
    assert "there are more" not in outcome.out


def test_limit_holds_for_json_too(command: Command, shop: Shop) -> None:
    assert len(command("scan", shop.data_file, "--limit", "7", "--json").lines) == 7
    assert len(command("scan", shop.data_file, "--json").lines) == 50


def test_names_match_in_any_case_on_request(command: Command, shop: Shop) -> None:
    arguments = ("scan", shop.data_file, "-w", "ID = 100", "-s", "NAME", "--json")
    assert command(*arguments, "--ignore-case").lines == [{"name": "n0"}]
    assert command(*arguments).code == 2


def test_an_older_snapshot_can_be_read(command: Command, shop: Shop) -> None:
    first = shop.table.history()[0].snapshot_id
    outcome = command("count", "db.orders", *shop.options, "--snapshot-id", str(first))
    assert outcome.out == "3\n"


def test_control_characters_are_shown_and_not_obeyed(command: Command, shop: Shop) -> None:
    outcome = command("scan", "db.orders", *shop.options, "-w", "Id is null")
    assert "\x1b" not in outcome.out
    assert r"\x1b[31mred" in outcome.out


def test_nothing_found_is_an_answer(command: Command, shop: Shop) -> None:
    assert command("scan", shop.data_file, "-w", "Id = 7", "--json").out == ""
    assert "0 rows" in command("scan", shop.data_file, "-w", "Id = 7").out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("-w", "Id >>> 5"), "Id >>> 5"),
        (("-w", "nothing = 5"), "nothing"),
        (("-w", "Id = 'text'"), "text"),
        (("-s", "nothing"), "nothing"),
        (("--limit", "-1"), "--limit"),
        (("--snapshot-id", "1"), "--snapshot-id is for tables"),
        (("--format", "nonsense"), "nonsense"),
    ],
)
def test_what_a_user_gets_wrong_is_said_in_one_line(
    command: Command, shop: Shop, arguments: tuple[str, ...], complaint: str
) -> None:
    outcome = command("scan", shop.data_file, *arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert complaint in outcome.err


@pytest.mark.parametrize(
    ("target", "arguments", "complaint"),
    [
        ("db.nothing", (), "db.nothing"),
        ("nothing.orders", (), "nothing.orders"),
        ("orders", (), "neither a file nor the name of a table"),
        ("db.orders", ("--snapshot-id", "1"), "1"),
        ("db.orders", ("--format", "parquet"), "--format is for a data file"),
        ("db.orders", ("-p", "novalue"), "KEY=VALUE"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_in_one_line(
    command: Command, shop: Shop, target: str, arguments: tuple[str, ...], complaint: str
) -> None:
    outcome = command("scan", target, *shop.options, *arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert complaint in outcome.err


def test_metadata_that_is_not_there_is_refused_in_one_line(command: Command) -> None:
    outcome = command("scan", "/nowhere/v1.metadata.json")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
