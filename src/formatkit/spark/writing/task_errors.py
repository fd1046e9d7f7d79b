"""Errors of tasks, raised on the driver as what they were: Spark hands on their text only.

A task adds a line to its error that says its class, its message and its facts. Spark puts it into the text of its own
exception, with the traceback, where the driver finds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import formatkit.errors
from formatkit.errors import FormatkitError
from formatkit.spark.sending import refusal_in

__all__ = ["error_in", "noted_errors", "typed_errors"]

_MARK = "formatkit-error: "
_NOTE = re.compile(rf"^\s*{_MARK}(\{{.*\}})\s*$", re.MULTILINE)


@contextmanager
def noted_errors() -> Iterator[None]:
    """On executors: let an error of formatkit say what it is."""
    try:
        yield
    except FormatkitError as error:
        facts = {
            name: value
            for name, value in vars(error).items()
            if name not in ("message", "__notes__") and isinstance(value, str | int | None)
        }
        # Errors of plugins may be of classes that the driver does not have.
        known = next(each.__name__ for each in type(error).__mro__ if each.__name__ in formatkit.errors.__all__)
        error.add_note(_MARK + json.dumps({"class": known, "message": error.message, "facts": facts}))
        raise


@contextmanager
def typed_errors() -> Iterator[None]:
    """On the driver: raise the error of a task in place of Spark's exception, which is its cause."""
    try:
        yield
    except Exception as error:
        found = error_in(str(error))
        if found is None:
            raise
        raise found from error


def error_in(text: str) -> FormatkitError | None:
    """The error that a text of Spark's tells of; the last one if there are several."""
    notes = _NOTE.findall(text)
    if not notes:
        return refusal_in(text)
    try:
        told = json.loads(notes[-1])
        kind: type[FormatkitError] = getattr(formatkit.errors, told["class"])
        return kind(told["message"], **told["facts"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # the text was cut off, or is somebody else's
