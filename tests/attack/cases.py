"""One case of the attack: what is run, what it found, and how it is kept so that it can be run again."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from formatkit.errors import FormatkitError

__all__ = ["Case", "Finding", "Result", "attempt"]


@dataclass(frozen=True)
class Finding:
    """Something that must not happen.

    Attributes:
        kind: ``untyped error``, ``wrong rows``, ``signal``, ``hang``, ``memory`` and the like.
        where: What was attacked, such as ``parquet.page_header``; findings of one place are counted together.
        what: What was done and what came of it.
        cause: The last frames of a traceback.
    """

    kind: str
    where: str
    what: str
    cause: str = ""

    @property
    def signature(self) -> str:
        """The same for findings that have the same cause, most likely."""
        return f"{self.kind} | {self.where} | {self.cause.strip().splitlines()[-1][:60] if self.cause else ''}"


@dataclass
class Result:
    """What a case did, counted, and what it found."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    peak_bytes: int = 0


@dataclass(frozen=True)
class Case:
    """A case: its part, seed and number say all that happens in it.

    Attributes:
        part: The part of the attack.
        seed: The seed of the whole attack.
        number: The number of the case within its part.
        folder: A folder of the worker, which is there from case to case.
        again: The folder of a kept case that is to be run again, or None.
    """

    part: str
    seed: int
    number: int
    folder: Path
    again: Path | None = None

    @property
    def random(self) -> Random:
        return Random(f"{self.seed}/{self.part}/{self.number}")

    @property
    def kept(self) -> Path:
        """Where a case puts what it is about to read, lest a crash take it along."""
        return self.folder / "case"

    def keep(self, facts: dict[str, Any], **files: bytes) -> None:
        self.kept.mkdir(exist_ok=True)
        for name, content in files.items():
            (self.kept / name).write_bytes(content)
        known = {"part": self.part, "seed": self.seed, "number": self.number}
        (self.kept / "case.json").write_text(json.dumps(known | facts, indent=1) + "\n")


def attempt(call: Any) -> tuple[Any, Finding | None]:
    """The value of a call; None after an error, with a finding if it is not one of formatkit's."""
    try:
        return call(), None
    except FormatkitError:
        return None, None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - panics of Rust are no Exception
        frames = traceback.format_exception(type(error), error, error.__traceback__)
        cause = "".join(frames)[-1500:]
        return None, Finding("untyped error", "", f"{type(error).__name__}: {str(error)[:300]}", cause)
