"""Runs the parts of the attack side by side until the time is over, each for its share of it."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from attack.cases import Case, Finding, Result
from attack.parts import PARTS
from attack.workers import Limits, run_all

__all__ = ["Attack", "run_again"]

_MAX_KEPT = 3
"""How many findings of one kind and place are kept; all are counted."""
_MIN_SECONDS = 0.001


class Attack:
    """An attack: what it tried, counted, and what it found, by signature."""

    def __init__(
        self,
        *,
        seed: int,
        folder: Path,
        seconds: float = 0.0,
        parts: list[str] | None = None,
        cases: dict[str, int] | None = None,
        workers: int = 2,
    ) -> None:
        """An attack of some seconds, or of a number of cases of each part, which is the same wherever it runs."""
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.findings: Counter[str] = Counter()
        self._parts = parts or list(cases or PARTS)
        self._cases_of = cases
        self._spent = dict.fromkeys(self._parts, 0.0)
        self._numbers = dict.fromkeys(self._parts, 0)
        self._seconds = seconds
        self._folder = folder.resolve()
        self._workers = workers

    def run(self) -> None:
        cases = self._counted() if self._cases_of else self._timed()
        print(f"ATTACK_SEED={self.seed}: {', '.join(self._parts)}", flush=True)
        for case, result, seconds in run_all(cases, self._folder, self._workers):
            self._spent[case.part] += seconds - _MIN_SECONDS
            self.counts[f"cases of {case.part}"] += 1
            self.counts.update(result.counts)
            for finding in result.findings:
                self._note(case, finding)

    def _counted(self) -> Iterator[tuple[Case, Limits]]:
        for part, count in (self._cases_of or {}).items():
            yield from ((Case(part, self.seed, number, self._folder), PARTS[part].limits) for number in range(count))

    def _timed(self) -> Iterator[tuple[Case, Limits]]:
        """The next case is of the part that has had the least of its share."""
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            part = min(self._parts, key=lambda name: (self._spent[name] / PARTS[name].share, self._numbers[name]))
            # What is under way counts as well, lest every worker take the same long part.
            self._spent[part] += _MIN_SECONDS
            yield Case(part, self.seed, self._numbers[part], self._folder), PARTS[part].limits
            self._numbers[part] += 1

    def _note(self, case: Case, finding: Finding) -> None:
        facts = {}
        kept = case.kept / "case.json"
        if kept.exists():
            facts = json.loads(kept.read_text())
        if not finding.where:
            finding = Finding(finding.kind, facts.get("where", case.part), f"{finding.what}: {facts.get('what', '')}")
        self.findings[finding.signature] += 1
        if self.findings[finding.signature] > _MAX_KEPT:
            return
        name = f"{finding.kind}-{finding.where}-{case.part}-{self.seed}-{case.number}".replace(" ", "-")
        place = self._folder / "findings" / name.replace("/", "-")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        if case.kept.exists():
            shutil.copytree(case.kept, place, dirs_exist_ok=True)
        else:
            (place / "case.json").write_text(json.dumps({"part": case.part, "seed": case.seed, "number": case.number}))
        (place / "finding.txt").write_text(f"{finding.kind}: {finding.where}\n{finding.what}\n\n{finding.cause}\n")
        print(
            f"FOUND {finding.kind}: {finding.where}: {finding.what[:200]}\n  PYTHONPATH=tests python -m attack {place}"
        )

    def summary(self) -> str:
        lines = [f"ATTACK_SEED={self.seed}"]
        lines += [f"{count:>9,}  {name}" for name, count in sorted(self.counts.items())]
        lines.append(f"{sum(self.findings.values()):>9,}  findings, of {len(self.findings)} kinds")
        lines += [f"{count:>9,}  {signature}" for signature, count in self.findings.most_common()]
        return "\n".join(lines)


def run_again(kept: list[Path], folder: Path) -> int:
    """Run kept cases again; the number of those that still find something."""
    still = 0
    for case, result in again(kept, folder):
        for finding in result.findings:
            print(f"{case.again}: {finding.kind}: {finding.where}: {finding.what}\n{finding.cause}")
        still += bool(result.findings)
    print(f"{len(kept)} cases, {still} still find something")
    return 1 if still else 0


def again(kept: list[Path], folder: Path) -> Iterator[tuple[Case, Result]]:
    """The results of kept cases."""

    def cases() -> Iterator[tuple[Case, Limits]]:
        for place in kept:
            facts = json.loads((place / "case.json").read_text())
            case = Case(facts["part"], facts["seed"], facts["number"], folder, again=place.resolve())
            yield case, PARTS[case.part].limits

    for case, result, _ in run_all(cases(), folder, 1):
        yield case, result
