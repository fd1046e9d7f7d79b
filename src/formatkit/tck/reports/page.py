"""Runs as one HTML page that needs nothing else: no network, no server, and for reading not even its script."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template

from formatkit.tck.check import Check, Layer, checks
from formatkit.tck.clauses import clauses
from formatkit.tck.reports.matrix import LAYER_TITLES, Group, LayerTable, Row, layer_tables, total, verdict
from formatkit.tck.results import Outcome, Result, Run

__all__ = ["page"]

# What fits beside the sentences on a large screen; more columns scroll sideways.
_MOST_COLUMNS = 10
_CODE = re.compile(r"``(.+?)``|`(.+?)`")
_STRONG = re.compile(r"\*\*(.+?)\*\*")
_LAYER_REMARKS = {
    Layer.BATCH: "What a type of batch does with rows, without files.",
    Layer.FORMAT: "What a plugin writes and reads, on the contract alone.",
    Layer.SCAN: "The same plugin in real tables, through kernel and scan.",
}


def page(runs: Sequence[Run]) -> str:
    """The report as a page."""
    tables = layer_tables(runs)
    failed = total(runs)[Outcome.FAILED]
    return Template(_resource("page.html")).substitute(
        title="formatkit conformance",
        style=_resource("page.css"),
        script=_resource("page.js"),
        state="failed" if failed else "held",
        verdict=verdict(runs),
        facts=_facts(runs),
        runs=_cards(runs),
        failures=_cases(runs, Outcome.FAILED, "Failures"),
        known=_cases(runs, Outcome.KNOWN, "Known failures"),
        layer_filters="".join(_layer_filter(table.layer) for table in tables),
        outcome_filters="".join(_outcome_filter(outcome) for outcome in Outcome if total(runs)[outcome]),
        tables="\n".join(_layer(table) for table in tables),
        clauses=_clauses(row.check for table in tables for group in table.groups for row in group.rows),
    )


def _resource(name: str) -> str:
    return (files("formatkit.tck.reports") / name).read_text(encoding="utf-8").strip()


def _facts(runs: Sequence[Run]) -> str:
    count = len(runs)
    versions = ", ".join(dict.fromkeys(f"formatkit {run.formatkit}" for run in runs))
    when = min((f"{run.started:%d %B %Y, %H:%M} UTC" for run in runs), default="")
    plural = "" if count == 1 else "s"
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return escape(f"{count} run{plural} with {versions}, {python}, {when}. Every cell below was earned by running it.")


def _cards(runs: Sequence[Run]) -> str:
    return f'<ul class="runs" aria-label="Runs">{"".join(map(_card, runs))}</ul>'


def _card(run: Run) -> str:
    counts = {outcome: count for outcome, count in run.counts.items() if count}
    bar = "".join(f'<i class="{_word(outcome)}" style="flex:{count}"></i>' for outcome, count in counts.items())
    told = ", ".join(
        f'<span class="{_word(outcome)}">{outcome.counted(count)}</span>' for outcome, count in counts.items()
    )
    title = run.file_format or run.batch_type
    kind = f"in {run.batch_type}" if run.file_format else "batch type"
    declares = (
        f'<p class="declares">Declares {", ".join(map(escape, run.capabilities))}</p>' if run.capabilities else ""
    )
    return (
        f'<li class="run"><h3>{escape(title)}</h3><p class="type">{escape(kind)}, {escape(run.plugin)}</p>'
        f'<div class="bar" aria-hidden="true">{bar}</div>'
        f'<p class="counts">{told}, in {run.seconds:.1f} s</p>{declares}</li>'
    )


def _cases(runs: Sequence[Run], outcome: Outcome, title: str) -> str:
    found = [
        (_case_id(run, result), run, result) for run in runs for result in run.results if result.outcome is outcome
    ]
    if not found:
        return ""
    word = _word(outcome)
    body = "\n".join(_case(*each) for each in found)
    return f'<section id="{word}" aria-labelledby="{word}-title"><h2 id="{word}-title">{title}</h2>{body}</section>'


def _case(case_id: str, run: Run, result: Result) -> str:
    check = checks()[result.check]
    promised = "".join(f"<p>{_chip(number)} {_prose(clauses()[number])}</p>" for number in check.clauses)
    reason = f"<h4>Reason</h4><p>{_prose(result.reason)}</p>" if result.reason else ""
    example = f"<h4>Smallest example that fails</h4><pre>{escape(result.example)}</pre>" if result.example else ""
    return (
        f'<details class="case {_word(result.outcome)}" id="{case_id}"><summary>'
        f'<strong>{escape(check.sentence)}</strong><span class="where">{escape(run.name)}</span></summary>'
        f'<div class="body">{reason}<h4>What the contract says</h4>{promised}'
        f"<h4>What happened</h4><pre>{escape(result.message)}</pre>{example}"
        f'<h4>Run it again</h4><div class="again"><pre>{escape(run.command(result.check))}</pre>'
        f'<button type="button" class="copy script">Copy</button></div></div></details>'
    )


def _layer_filter(layer: Layer) -> str:
    return _choice("layer", f"{layer:d}", f"{layer:d}", LAYER_TITLES[layer])


def _outcome_filter(outcome: Outcome) -> str:
    return _choice("outcome", _word(outcome), f"{_sign(outcome)}{_word(outcome)}", outcome.value)


def _choice(name: str, value: str, face: str, label: str) -> str:
    return (
        f'<label class="choice" title="{label}"><input type="checkbox" name="{name}" value="{value}" '
        f'aria-label="{label}"><span class="face">{face}</span></label>'
    )


def _layer(table: LayerTable) -> str:
    columns = "".join(_column(run) for run in table.runs)
    title = f"Layer {table.layer:d}: {LAYER_TITLES[table.layer].lower()}"
    scroll = "scroll wide" if len(table.runs) > _MOST_COLUMNS else "scroll"
    return (
        f'<section class="layer" data-layer="{table.layer:d}"><h3>{title}</h3><p>{_LAYER_REMARKS[table.layer]}</p>'
        f'<div class="{scroll}"><table><thead><tr><th scope="col">Check</th><th scope="col">Clauses</th>{columns}</tr>'
        f"</thead>{''.join(_group(group, table) for group in table.groups)}</table></div></section>"
    )


def _column(run: Run) -> str:
    package, _, kind = run.batch_type.partition(".")
    title, remark = (package, kind) if run.file_format is None else (run.file_format, package)
    return f'<th scope="col" class="of" title="{escape(run.name)}">{escape(title)}<small>{escape(remark)}</small></th>'


def _group(group: Group, table: LayerTable) -> str:
    head = (
        f'<tr class="head"><th class="group" colspan="{len(table.runs) + 2}" scope="rowgroup">'
        f"{escape(group.name.replace('_', ' ').capitalize())}</th></tr>"
    )
    return f"<tbody>{head}{''.join(_row(row, table) for row in group.rows)}</tbody>"


def _row(row: Row, table: LayerTable) -> str:
    check = row.check
    outcomes = " ".join(dict.fromkeys(_word(cell.outcome) for cell in row.cells if cell is not None))
    needs = f' <span class="needs">needs {check.when.value}</span>' if check.when is not None else ""
    cases = f'<span class="cases">{" ".join(check.cases)}</span>' if check.cases else ""
    cells = "".join(_cell(check, run, cell) for run, cell in zip(table.runs, row.cells, strict=True))
    return (
        f'<tr id="{check.name}" data-layer="{table.layer:d}" data-outcomes="{outcomes}" '
        f'data-words="{escape(_words(check))}"><th scope="row" class="check">{escape(check.sentence)}{needs}</th>'
        f'<td class="cites">{"".join(map(_chip, check.clauses))}{cases}</td>{cells}</tr>'
    )


def _words(check: Check) -> str:
    return " ".join([check.name, check.sentence, check.group, *check.clauses, *check.cases]).lower()


def _cell(check: Check, run: Run, result: Result | None) -> str:
    if result is None:
        why = f"declares {check.unless.value}, so there is nothing to refuse" if check.unless is not None else "not run"
        return f'<td class="of nothing" title="{escape(run.name)}: {why}">·<span class="unseen">{why}</span></td>'
    title = f"{run.name}: {result.outcome.value} in {result.seconds:.2f} s"
    sign = _sign(result.outcome)
    if result.outcome in (Outcome.FAILED, Outcome.KNOWN):
        sign = sign.replace("<span", f'<a href="#{_case_id(run, result)}"').replace("</span>", "</a>")
        sign = sign.replace("</svg>", f'</svg><span class="unseen">{result.outcome.value}</span>')
    else:
        sign += f'<span class="unseen">{result.outcome.value}</span>'
    return f'<td class="of" title="{escape(title)}">{sign}</td>'


def _sign(outcome: Outcome) -> str:
    word = _word(outcome)
    return f'<span class="sign {word}"><svg aria-hidden="true"><use href="#sign-{word}"/></svg></span>'


def _chip(number: str) -> str:
    return f'<a class="clause" href="#clause-{number}">{number}</a>'


def _clauses(asked: Iterable[Check]) -> str:
    cited = {number for check in asked for number in check.clauses}
    terms = "".join(_terms(cited))
    title = '<h2 id="clauses-title">Clauses of the contract</h2>'
    return f'<section id="clauses" aria-labelledby="clauses-title">{title}<dl class="clauses">{terms}</dl></section>'


def _terms(cited: set[str]) -> Iterator[str]:
    for number, text in clauses().items():
        if number in cited:
            yield f'<dt id="clause-{number}">{number}</dt><dd>{_prose(text)}</dd>'


def _prose(text: str) -> str:
    coded = _CODE.sub(lambda found: f"<code>{found[1] or found[2]}</code>", escape(text))
    return _STRONG.sub(r"<strong>\1</strong>", coded)


def _word(outcome: Outcome) -> str:
    return outcome.name.lower()


def _case_id(run: Run, result: Result) -> str:
    subject = re.sub(r"[^a-z0-9]+", "-", f"{run.file_format or 'batch'} {run.batch_type}".lower())
    return f"{subject}-{result.check}"
