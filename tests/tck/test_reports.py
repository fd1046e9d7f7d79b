"""Reports say what runs found: the page, Markdown, JSON with the schema that is written down, and the badge."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from formatkit.tck import Layer, Outcome, Result, Run, checks
from formatkit.tck.clauses import clauses
from formatkit.tck.reports import badge, document, markdown, page
from support.repository import ROOT

VOID = {"br", "hr", "img", "input", "link", "meta", "path", "circle", "use", "rect"}
OF_BATCHES = [check for check in checks().values() if check.layer is Layer.BATCH][:3]
OF_FORMATS = [check for check in checks().values() if check.layer is not Layer.BATCH]
FAILING, KNOWN, REFUSED = OF_FORMATS[0], OF_FORMATS[1], next(check for check in OF_FORMATS if check.when is not None)
TWIN = next(check for check in OF_FORMATS if check.unless is not None)
EVIL = "<script>alert('|')</script> `x` & more"


def result(name: str, outcome: Outcome = Outcome.PASSED, **facts: str) -> Result:
    return Result(check=name, outcome=outcome, seconds=0.25, **facts)


def run(file_format: str | None, batch_type: str, results: list[Result]) -> Run:
    return Run(
        file_format=file_format,
        batch_type=batch_type,
        plugin="formatkit-toy 1.0",
        formatkit="0.1.0",
        capabilities=("field-ids", "split") if file_format else (),
        examples=20,
        started=datetime(2026, 1, 31, 10, tzinfo=UTC),
        results=results,
    )


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    special = {
        FAILING.name: result(FAILING.name, Outcome.FAILED, message=EVIL, example="holds(\n    size=16,\n)"),
        KNOWN.name: result(KNOWN.name, Outcome.KNOWN, message="found 1", reason=EVIL),
        REFUSED.name: result(REFUSED.name, Outcome.REFUSED),
    }
    troubled = [special.get(check.name) or result(check.name) for check in OF_FORMATS]
    good = [result(check.name) for check in OF_FORMATS if check is not TWIN]
    return [
        run("toy", "pyarrow.RecordBatch", troubled),
        run("toy", "polars.DataFrame", good),
        run(None, "polars.DataFrame", [result(check.name) for check in OF_BATCHES]),
    ]


@pytest.fixture(scope="module")
def good(runs: list[Run]) -> list[Run]:
    return runs[1:]


class Page(HTMLParser):
    """The elements of a page, as (name, attributes, text inside), and whether they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self.open: list[tuple[str, list[str]]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        texts: list[str] = []
        self.elements.append((tag, {name: value or "" for name, value in attrs}, texts))
        if tag not in VOID:
            self.open.append((tag, texts))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}, []))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, texts in self.open:
            texts.append(data)

    def all(self, tag: str, **wanted: str) -> list[tuple[dict[str, str], str]]:
        return [
            (attributes, " ".join("".join(texts).split()))
            for name, attributes, texts in self.elements
            if name == tag and all(wanted[key] in attributes.get(key.strip("_"), "").split() for key in wanted)
        ]


@pytest.fixture(scope="module")
def shown(runs: list[Run]) -> Page:
    return Page(page(runs))


def test_the_page_needs_nothing_but_itself(shown: Page, runs: list[Run]) -> None:
    assert not shown.all("link")
    assert not [attributes for attributes, _ in shown.all("script") if attributes]
    references = [
        value for _, attributes, _ in shown.elements for key, value in attributes.items() if key in ("src", "href")
    ]
    assert [reference for reference in references if not reference.startswith("#")] == []
    assert not re.search(r"@import|url\(|https?://", page(runs))


def test_every_link_of_the_page_leads_somewhere_and_ids_are_unique(shown: Page) -> None:
    ids = [attributes["id"] for _, attributes, _ in shown.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {attributes["href"][1:] for _, attributes, _ in shown.elements if "href" in attributes}
    assert targets <= set(ids)


def test_every_check_has_a_row_with_a_cell_for_each_run(shown: Page, runs: list[Run]) -> None:
    rows = {attributes["id"]: attributes for attributes, _ in shown.all("tr") if "data-words" in attributes}
    assert set(rows) == {result.check for run in runs for result in run.results}
    assert rows[FAILING.name]["data-outcomes"].split() == ["failed", "passed"]
    assert FAILING.clauses[0].lower() in rows[FAILING.name]["data-words"]
    cells = [attributes["title"] for attributes, _ in shown.all("td", class_="of")]
    earned = sum(len(run.results) for run in runs)
    assert len([title for title in cells if title.endswith(" s")]) == earned
    assert [title for title in cells if "nothing to refuse" in title] == [
        f"toy × polars.DataFrame: declares {TWIN.unless.value}, so there is nothing to refuse"  # type: ignore[union-attr]
    ]


def test_the_page_says_what_every_clause_that_it_names_promises(shown: Page) -> None:
    terms = [text for attributes, text in shown.all("dt") if attributes["id"].startswith("clause-")]
    texts = [text for _, text in shown.all("dd")]
    chips = {text for _, text in shown.all("a", class_="clause")}
    assert set(terms) == chips
    for number, text in zip(terms, texts, strict=True):
        assert text == re.sub(r"`|\*\*", "", clauses()[number])


def test_a_failure_on_the_page_has_message_example_and_command_and_no_power(shown: Page, runs: list[Run]) -> None:
    ((attributes, text),) = shown.all("details", class_="failed")
    assert EVIL in text
    assert "size=16" in text
    assert runs[0].command(FAILING.name) in text
    links = [link["href"] for link, label in shown.all("a", class_="sign") if label == "failed"]
    assert links == [f"#{attributes['id']}"]
    assert len(shown.all("script")) == 1


def test_controls_of_the_page_have_names(shown: Page) -> None:
    choices = [attributes for attributes, _ in shown.all("input") if attributes["type"] == "checkbox"]
    assert {attributes["value"] for attributes in choices} == {
        "1", "2", "3", "passed", "failed", "refused", "known"
    }  # fmt: skip
    assert all(attributes["aria-label"] for attributes in choices)
    assert all(attributes.get("aria-label") or text for attributes, text in shown.all("button"))
    assert shown.all("label", class_="search")[0][1].startswith("Search checks")


def test_the_page_begins_with_what_came_out(shown: Page, runs: list[Run]) -> None:
    every = sum(len(run.results) for run in runs)
    assert [text for _, text in shown.all("h1")] == [f"1 of {every:,} checks fails."]
    assert shown.all("p", class_="counts")[0][1].startswith(f"{len(runs[0].results) - 3:,} passed, 1 failed, ")


def test_a_page_without_failures_says_that_all_holds(good: list[Run]) -> None:
    found = Page(page(good))
    assert found.all("h1")[0][1] == f"All {sum(len(run.results) for run in good):,} checks hold."
    assert found.all("details") == []


def documented() -> dict[str, str]:
    text = (ROOT / "docs" / "tck.md").read_text().partition("### JSON")[2]
    return dict(re.findall(r"^\| `([^`]+)` \| ([^|]+?) \|", text, re.MULTILINE))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, f"{path}[]")
    else:
        yield path, value


def kind(value: Any) -> str:
    return {int: "integer", float: "number", str: "string", type(None): "null"}[type(value)]


def test_the_json_report_has_the_schema_that_is_written_down(runs: list[Run]) -> None:
    found = json.loads(json.dumps(document(runs), allow_nan=False))
    promised = documented()
    seen = list(leaves(found))
    assert {path for path, _ in seen} == set(promised)
    for path, value in seen:
        assert kind(value) in promised[path].split(" or "), path


def test_the_json_report_is_what_the_runs_found(runs: list[Run]) -> None:
    found = document(runs)
    assert found["schema_version"] == 1
    assert found["counts"]["failed"] == found["counts"]["known"] == found["counts"]["refused"] == 1
    assert [each["number"] for each in found["clauses"]] == [
        number for number in clauses() if any(number in check["clauses"] for check in found["checks"])
    ]
    failed = next(each for each in found["runs"][0]["results"] if each["outcome"] == "failed")
    assert failed["message"] == EVIL
    assert failed["again"] == f"formatkit tck toy --batch pyarrow.RecordBatch --check {FAILING.name}"


def table_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_markdown_begins_with_a_line_that_says_it_all(runs: list[Run]) -> None:
    first = markdown(runs).splitlines()[0]
    assert first.startswith("**formatkit TCK** `")
    assert "`1 failed` `1 refused as declared` `1 known failure`" in first
    assert first.endswith("(formatkit-toy 1.0, formatkit 0.1.0)")


def test_markdown_has_a_row_for_every_check_and_tables_that_are_whole(runs: list[Run]) -> None:
    text = markdown(runs)
    for block in re.findall(r"(?:^\| .*\n)+", text, re.MULTILINE):
        assert len({len(row) for row in table_rows(block)}) == 1
    everything = text.partition("<details>")[2]
    rows = {row[1]: row for row in table_rows(everything)}
    assert {check.sentence for check in [*OF_BATCHES, *OF_FORMATS]} <= set(rows)
    assert rows[FAILING.sentence][2:] == ["**failed**", "passed"]
    assert rows[TWIN.sentence][2:] == ["passed", "–"]
    assert rows["check"][2:] in (["polars.DataFrame"], ["toy × pyarrow.RecordBatch", "toy × polars.DataFrame"])
    assert "<script>" not in text


def test_markdown_names_every_failure_with_its_reason(runs: list[Run]) -> None:
    failures, _, rest = markdown(runs).partition("### Known failures")
    assert FAILING.sentence in failures
    assert "alert('\\|')" in failures
    assert KNOWN.sentence in rest.partition("###")[0]


@pytest.mark.parametrize(
    ("which", "says"), [(slice(None), "1 failed"), (slice(1, None), "hold")], ids=["failing", "good"]
)
def test_the_badge_is_a_picture_that_says_what_came_out(runs: list[Run], which: slice, says: str) -> None:
    picture = ET.fromstring(badge(runs[which]))
    texts = [element.text or "" for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "formatkit TCK"
    assert says in texts[1]
