"""What runs found, in the forms that people and programs read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from formatkit.errors import ConfigurationError, StorageError
from formatkit.tck.reports.badge import badge
from formatkit.tck.reports.document import document, document_text
from formatkit.tck.reports.markdown import markdown
from formatkit.tck.reports.page import page
from formatkit.tck.results import Run

__all__ = ["badge", "check_report_path", "document", "markdown", "page", "write_report"]

_FORMS: dict[str, Callable[[Sequence[Run]], str]] = {
    ".html": page,
    ".json": document_text,
    ".md": markdown,
    ".svg": badge,
}


def check_report_path(path: Path) -> None:
    """Raise `ConfigurationError` unless the ending of a report's name tells its form."""
    if path.suffix.lower() not in _FORMS:
        raise ConfigurationError(
            f"cannot tell the form of the report {path} by its name; it ends in one of {', '.join(_FORMS)}"
        )


def write_report(path: Path, runs: Sequence[Run]) -> None:
    """Write a report of the runs, in the form that the ending of its name tells."""
    check_report_path(path)
    text = _FORMS[path.suffix.lower()](runs)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write the report {path}: {error.strerror}", location=str(path)) from error
