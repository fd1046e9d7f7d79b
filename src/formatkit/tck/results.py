"""What became of the checks: values that reports are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

__all__ = ["DEFAULT_EXAMPLES", "Outcome", "Result", "Run"]

DEFAULT_EXAMPLES = 20


class Outcome(Enum):
    """What became of one check. There is no word for "skipped": what does not apply is refused, and that is proved."""

    PASSED = "passed"
    FAILED = "failed"
    REFUSED = "refused as declared"
    """The plugin does not declare the capability, and the check's twin proved that it says so."""
    KNOWN = "known failure"
    """It failed, and was said to fail, with a reason. If it passes, that is a failure."""

    def counted(self, count: int) -> str:
        """So many of them, for people."""
        plural = "s" if self is Outcome.KNOWN and count != 1 else ""
        return f"{count:,} {self.value}{plural}"


@dataclass(frozen=True, kw_only=True)
class Result:
    """One check, and what became of it.

    Attributes:
        check: The name of the check.
        outcome: What became of it.
        seconds: How long it took.
        message: Why it failed: what was expected, and what was found.
        example: The smallest random example that fails, if the check tries random ones.
        reason: Why it is known to fail.
    """

    check: str
    outcome: Outcome
    seconds: float
    message: str = ""
    example: str = ""
    reason: str = ""

    @property
    def headline(self) -> str:
        """The line of the message that says most: of a traceback the last one."""
        lines = self.message.strip().splitlines() or [""]
        return lines[-1] if lines[0].startswith("Traceback") else lines[0]


@dataclass(frozen=True, kw_only=True)
class Run:
    """All checks of one plugin.

    Attributes:
        file_format: The format's name, or None for a run of a batch type alone.
        batch_type: The name of the batch type: its package and its class.
        plugin: The distribution that brings the plugin, with its version, or the class.
        formatkit: The version of the kit.
        capabilities: The words of what the plugin declares.
        examples: How many examples each random check tried.
        started: When the run began.
        results: In the order of the catalogue.
    """

    file_format: str | None
    batch_type: str
    plugin: str
    formatkit: str
    capabilities: tuple[str, ...]
    examples: int
    started: datetime
    results: Sequence[Result]

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if result.outcome is Outcome.FAILED]

    @property
    def seconds(self) -> float:
        """The time that all checks took together."""
        return sum(result.seconds for result in self.results)

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many checks had each outcome."""
        found = Counter(result.outcome for result in self.results)
        return {outcome: found[outcome] for outcome in Outcome}

    @property
    def name(self) -> str:
        return f"{self.file_format or 'batch'} × {self.batch_type}"

    def command(self, check: str) -> str:
        """What to type to run one check of this run again."""
        command = f"formatkit tck {self.file_format or 'batches'} --batch {self.batch_type} --check {check}"
        return command if self.examples == DEFAULT_EXAMPLES else f"{command} --examples {self.examples}"
