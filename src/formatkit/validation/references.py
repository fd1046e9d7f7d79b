"""Checks that files which metadata refers to exist, and have the length that it says."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from pyiceberg.io import FileIO

from formatkit.errors import FileMissingError, FormatkitError
from formatkit.io import IoRuntime, open_source
from formatkit.scan.runner import run_in_order
from formatkit.validation.findings import Findings

__all__ = ["Reference", "check_references"]


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


def check_references(
    references: Iterable[Reference], io: FileIO, findings: Findings, *, runtime: IoRuntime, threads: int
) -> None:
    """Ask the storage for each file once, several at a time."""

    def check(reference: Reference) -> Iterator[None]:
        _check(reference, io, findings, runtime)
        yield from ()

    for _ in run_in_order(list(references), check, threads=threads, buffer_bytes=sys.maxsize):
        pass


def _check(reference: Reference, io: FileIO, findings: Findings, runtime: IoRuntime) -> None:
    said = "a file" if reference.length is None else f"a file of {reference.length} bytes"
    try:
        with closing(open_source(reference.location, io, runtime=runtime)) as source:
            size = source.size()
    except FileMissingError:
        findings.add(reference.missing, reference.location, said=said, found="there is no file")
        return
    except FormatkitError as error:
        findings.add("storage-failed", reference.location, said=said, found=error)
        return
    if reference.length is not None and size != reference.length:
        findings.add(reference.wrong_length, reference.location, said=said, found=f"it has {size} bytes")
