"""Ask formatkit and its peers the same questions and write docs/comparison.md.

Run it with `make compare`. The right answers come from the naive evaluator, never from one of the readers.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, Not, UnboundPredicate

from formatkit.tck.rows import comparable, from_arrow
from formatkit.tck.scenarios import Scenario
from formatkit.tck.traps import TRAPS

os.environ.setdefault("DAFT_PROGRESS_BAR", "0")
os.environ.setdefault("RUST_BACKTRACE", "0")

from engines import ENGINES, VERSIONS, native

REPORT = Path(__file__).parents[1] / "docs" / "comparison.md"
RIGHT = "✓"

INTRODUCTION = """\
# The same questions, four readers

This page is made by `make compare` (`benchmarks/compare.py`); do not edit it by hand. Each question is asked of a real
Iceberg table on disk, in row groups of three rows and pages of two. The right answer comes from a naive evaluator that
follows the Iceberg spec one row at a time (`formatkit.tck.naive`), never from one of the readers.

✓ is the right answer. A wrong answer shows the `id`s of the rows that came back and of those that should have, or the
first value that differs. An error shows its type.

pyiceberg is given the same expression as formatkit. Polars (its native reader, `reader_override="native"`) and Daft
filter by SQL's three-valued logic, so they are asked the spec's question in their own words: `x != 1` becomes
`x is null or x != 1`, and `x > 1` on floats becomes `x > 1 and x is not NaN`.
"""


@dataclass(frozen=True)
class Verdict:
    """What one engine made of one question."""

    right: bool
    text: str


def main() -> None:
    warnings.simplefilter("ignore")
    verdicts: dict[int, list[Verdict]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for number, scenario in enumerate(TRAPS):
            table = scenario.build(Path(directory) / str(number))
            verdicts[number] = [judge(scenario, engine, table) for engine in ENGINES.values()]
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text("\n".join(report(verdicts)) + "\n")
    sys.stderr.write(f"{REPORT.relative_to(Path.cwd()) if REPORT.is_relative_to(Path.cwd()) else REPORT}\n")


def judge(scenario: Scenario, engine, table) -> Verdict:  # type: ignore[no-untyped-def]
    expected = scenario.answer()
    try:
        answer = engine(table, scenario.predicate)
        rows = from_arrow(scenario.schema, answer.select([field.name for field in scenario.schema.fields]))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic in Rust is no Exception, and it is an answer too
        return Verdict(False, f"error: {spell_error(error)}")
    return compared(scenario, sorted(rows, key=order), sorted(expected, key=order))


def order(row: dict[int, object]) -> tuple[int, str]:
    return int(str(row[1])), str(row)


def compared(scenario: Scenario, rows: list[dict[int, object]], expected: list[dict[int, object]]) -> Verdict:
    if comparable(rows) == comparable(expected):
        return Verdict(True, RIGHT)
    got, wanted = ([row[1] for row in some] for some in (rows, expected))
    if got != wanted:
        return Verdict(False, f"rows {spell_ids(got)} instead of {spell_ids(wanted)}")
    for row, right in zip(rows, expected, strict=True):
        for field in scenario.schema.fields:
            have, want = row[field.field_id], right[field.field_id]
            if comparable([have]) != comparable([want]):
                return Verdict(False, f"`{field.name}` of row {right[1]} is `{have}` instead of `{want}`")
    raise AssertionError(rows)


def spell_ids(ids: Iterable[object]) -> str:
    return " ".join(str(number) for number in ids) or "none"


def report(verdicts: dict[int, list[Verdict]]) -> Iterable[str]:
    yield INTRODUCTION
    yield "Versions: " + ", ".join(f"{name} {number}" for name, number in VERSIONS.items()) + ".\n"
    yield "| | " + " | ".join(ENGINES) + " |"
    yield "| --- |" + " ---: |" * len(ENGINES)
    scores = [sum(verdict.right for verdict in column) for column in zip(*verdicts.values(), strict=True)]
    yield f"| right answers of {len(TRAPS)} | " + " | ".join(map(str, scores)) + " |"
    yield ""
    yield "| table | question | " + " | ".join(ENGINES) + " |"
    yield "| --- | --- |" + " --- |" * len(ENGINES)
    by_table: dict[str, list[int]] = {}
    for number, scenario in enumerate(TRAPS):
        by_table.setdefault(scenario.name, []).append(number)
    for name, numbers in by_table.items():
        for number in numbers:
            answers = " | ".join(verdict.text for verdict in verdicts[number])
            yield f"| {name if number == numbers[0] else ''} | {spell(TRAPS[number])} | {answers} |"


def spell(scenario: Scenario) -> str:
    if scenario.where == AlwaysTrue():
        return "all rows"
    return f"`{scenario.where if isinstance(scenario.where, str) else in_words(scenario, scenario.where)}`"


def in_words(scenario: Scenario, predicate: BooleanExpression) -> str:
    if isinstance(predicate, Not):
        return f"not ({in_words(scenario, predicate.child)})"
    if not isinstance(predicate, UnboundPredicate):
        raise NotImplementedError(repr(predicate))
    operators = {"EqualTo": "=", "NotEqualTo": "!=", "In": "in", "NotIn": "not in"}
    spoken = {"LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">="}
    operator = (operators | spoken)[type(predicate).__name__]
    name = predicate.term.name  # type: ignore[attr-defined]
    column_type = scenario.schema.find_field(name).field_type
    many = getattr(predicate, "literals", None)
    if many is not None:
        return f"{name} {operator} ({', '.join(sorted(in_literal(native(one, column_type)) for one in many))})"
    return f"{name} {operator} {in_literal(native(predicate.literal, column_type))}"  # type: ignore[attr-defined]


def in_literal(value: object) -> str:
    if isinstance(value, bytes):
        text = value.hex()
        return f"0x{text}" if len(text) < 16 else f"0x{text[:4]}…{text[-4:]}"
    return f"'{value}'" if isinstance(value, str | date | datetime | time) else str(value)


def spell_error(error: BaseException) -> str:
    package = type(error).__module__.partition(".")[0]
    return type(error).__name__ if package == "builtins" else f"{package}.{type(error).__name__}"


if __name__ == "__main__":
    main()
