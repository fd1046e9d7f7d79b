"""The checks as parameters of a pytest test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from formatkit.contract import FormatPlugin
from formatkit.tck.check import Check
from formatkit.tck.known import read_known_failures
from formatkit.tck.runner import Subject, run_check, selected

if TYPE_CHECKING:
    import pytest

__all__ = ["BoundCheck", "parametrize"]


@dataclass(frozen=True)
class BoundCheck:
    """A check of one subject: call it, and it raises if the subject fails."""

    subject: Subject[Any]
    check: Check

    def __call__(self) -> None:
        run_check(self.subject, self.check)


def parametrize(
    plugin: FormatPlugin[Any] | Subject[Any],
    *,
    known_failures: Mapping[str, str] | PathLike[str] | None = None,
    layers: Iterable[int] = (),
) -> pytest.MarkDecorator:
    """Make a test of each check, for a test function whose argument is called `check` and that calls it.

    Args:
        plugin: A format plugin, or a `Subject` where more is to be said of it.
        known_failures: Reasons by the name of the check, or the path of a file with them, as ``formatkit tck --known``
            takes it. A check that passes although it is here fails the test.
        layers: Which layers; by default those that concern the subject.
    """
    import pytest

    subject = plugin if isinstance(plugin, Subject) else Subject.of(plugin)
    known = (
        read_known_failures(known_failures, subject) if isinstance(known_failures, PathLike) else known_failures or {}
    )
    chosen = selected(subject, layers)
    selected(subject, names=known)  # a name that is no check's is an error
    parameters = [
        pytest.param(
            BoundCheck(subject, check),
            id=check.name,
            marks=[pytest.mark.xfail(strict=True, reason=known[check.name])] if check.name in known else [],
        )
        for check in chosen
    ]
    return pytest.mark.parametrize("check", parameters)
