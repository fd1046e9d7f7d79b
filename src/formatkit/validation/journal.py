"""What a validation has checked, written down as it goes on, so that another run need not check it again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyiceberg.manifest import ManifestEntry

from formatkit.errors import ConfigurationError
from formatkit.io import local_path
from formatkit.io.failures import storage_failures
from formatkit.validation.findings import Finding, Findings, Found
from formatkit.write.commit.records import content_place

__all__ = ["ValidationJournal"]


class ValidationJournal:
    """A file of JSON lines: what is validated, then the files of each finished piece and what was found in them.

    A run that was killed leaves a last line that is not complete, which is left out and checked again.

    Args:
        path: A file on a local disk; a new one, or that of a run that was stopped. None if nothing is to be kept.
        subject: What is validated, in words that tell it from everything else.

    Raises:
        ConfigurationError: The file is no journal, or one of something else.
        StorageError: It cannot be read or written.
    """

    def __init__(self, path: str | os.PathLike[str] | None, subject: dict[str, Any]) -> None:
        self._path: Path | None = None
        self._known: dict[str, None] = {}
        self._found: list[Found] = []
        if path is None:
            return
        spelled = os.fspath(path)
        local = spelled if isinstance(path, os.PathLike) else local_path(spelled)
        if local is None:
            raise ConfigurationError(f"the journal must be on a local disk, as it grows line by line; {spelled} is not")
        self._path = Path(local)
        with storage_failures(spelled, "read the journal"):
            lines = list(_lines(self._path))
        if not lines:
            self._write(subject, "w")
        elif lines[0] != subject:
            raise ConfigurationError(
                f"{spelled} is the journal of something else: {json.dumps(lines[0])}, where this is "
                f"{json.dumps(subject)}; name another file"
            )
        for line in lines[1:]:
            self._known.update(dict.fromkeys(line["files"]))
            self._found.append(Found(tuple(Finding(**each) for each in line["findings"]), line["checked"]))

    def __contains__(self, entry: ManifestEntry) -> bool:
        return _key(entry) in self._known

    def restore(self, findings: Findings) -> None:
        """Add what earlier runs found."""
        for found in self._found:
            findings.add_found(found)

    def note(self, entries: Sequence[ManifestEntry], found: Found) -> None:
        """Write down that some files were checked."""
        if self._path is not None:
            files = [_key(entry) for entry in entries]
            findings = [asdict(each) for each in found.findings]
            self._write({"files": files, "findings": findings, "checked": dict(found.checked)}, "a")

    def _write(self, line: dict[str, Any], mode: str) -> None:
        assert self._path is not None  # noqa: S101 - only called where there is one
        with storage_failures(str(self._path), "write the journal"), self._path.open(mode, encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
            stream.flush()
            os.fsync(stream.fileno())


def _key(entry: ManifestEntry) -> str:
    """One Puffin file may have several deletion vectors."""
    return f"{entry.data_file.file_path}#{content_place(entry.data_file)[0]}"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    for line in whole.splitlines():
        try:
            yield dict(json.loads(line))
        except ValueError as error:
            raise ConfigurationError(f"{path} is no journal of a validation; name another file") from error
