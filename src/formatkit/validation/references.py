"""Checks that files which metadata refers to exist, and have the length that it says."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from formatkit.errors import FileMissingError, FormatkitError
from formatkit.io import open_source
from formatkit.scan.sources import TableFiles
from formatkit.validation.findings import Findings, Found
from formatkit.write.jobs import Attempt

__all__ = ["Reference", "ReferenceCheck"]


class Reference(NamedTuple):
    """A file that something refers to.

    Attributes:
        location: Where it is.
        length: How long it is, if that is said.
        missing: The code if it does not exist.
        wrong_length: The code if it has another length.
    """

    location: str
    length: int | None
    missing: str = "file-missing"
    wrong_length: str = "file-length"


@dataclass(frozen=True)
class ReferenceCheck:
    """Asks the storage for some files, each once. Can be pickled.

    Attributes:
        storage: The table's `FileIO`.
    """

    storage: TableFiles

    def __call__(self, work: Sequence[Reference], attempt: Attempt) -> Found:
        findings = Findings()
        for done, reference in enumerate(work):
            _check(reference, self.storage, findings)
            attempt.tell(done + 1)
        return findings.found()


def _check(reference: Reference, storage: TableFiles, findings: Findings) -> None:
    said = "a file" if reference.length is None else f"a file of {reference.length} bytes"
    try:
        with closing(open_source(reference.location, storage.io, runtime=storage.runtime)) as source:
            size = source.size()
    except FileMissingError:
        findings.add(reference.missing, reference.location, said=said, found="there is no file")
        return
    except FormatkitError as error:
        findings.add("storage-failed", reference.location, said=said, found=error)
        return
    if reference.length is not None and size != reference.length:
        findings.add(reference.wrong_length, reference.location, said=said, found=f"it has {size} bytes")
