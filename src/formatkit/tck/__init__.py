"""The conformance kit: what a format or a batch type is proved with.

Checks are plain functions that prove numbered clauses of the contract; `run` runs them, `parametrize` hands them to
pytest, and ``formatkit tck`` is the command. Nothing here is shared with the code that it judges: truth is the data
itself, and an evaluator that looks at one row at a time in plain Python.
"""

# Before the function of the same name, which a later import of the package would cover.
from formatkit.tck import checks as _modules  # noqa: F401
from formatkit.tck.check import Check, Layer, check, checks
from formatkit.tck.results import Outcome, Result, Run
from formatkit.tck.runner import Subject, run
from formatkit.tck.under_pytest import BoundCheck, parametrize

__all__ = [
    "BoundCheck",
    "Check",
    "Layer",
    "Outcome",
    "Result",
    "Run",
    "Subject",
    "check",
    "checks",
    "parametrize",
    "run",
]
