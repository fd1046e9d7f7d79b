"""A process that answers one line of JSON with one line of JSON, started once and asked many times."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

__all__ = ["OracleError", "Servant"]


class OracleError(Exception):
    """The other implementation refused a job; the message is its own."""


class Servant:
    """Another implementation of Iceberg, behind a pipe."""

    def __init__(self, command: list[str | Path]) -> None:
        # What it logs is shown only if it dies: a pipe that nobody reads would block it.
        self._log = TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)

    def ask(self, **job: Any) -> dict[str, Any]:
        """What the process answers to the job; fields that are none are left out."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        line = json.dumps({key: value for key, value in job.items() if value is not None})
        stdin.write(line.encode() + b"\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            self._log.seek(0)
            raise OracleError(f"{self._process.args!r} died:\n{self._log.read().decode(errors='replace')[-4000:]}")
        result: dict[str, Any] = json.loads(answer)
        if "error" in result:
            raise OracleError(f"{result['error']}\n{result.get('trace', '')}")
        return result

    def close(self) -> None:
        """Let the process end by itself, as it does when there are no more jobs."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._log.close()
