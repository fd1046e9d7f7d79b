"""Prints how much was asked."""

from __future__ import annotations

import pytest

from support.corpus.answers import ASKED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    writers = {name: count for name, count in ASKED.items() if name.startswith("files of ")}
    if writers:
        files, questions = ASKED["files"], ASKED["questions"]
        terminalreporter.section("corpus")
        terminalreporter.line(f"{len(writers)} writers, {files} files of as many settings, {questions} questions")
        terminalreporter.line(", ".join(f"{count} {name}" for name, count in writers.items()))
