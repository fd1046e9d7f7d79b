"""Every format and every batch type that is installed passes every check of the kit, with no known failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from formatkit import tck
from formatkit.registry import default_registry
from formatkit.tck.under_pytest import BoundCheck


def subjects() -> Iterator[tuple[str, tck.Subject[Any]]]:
    for operations in default_registry().batch_operations():
        yield operations.batch_type.__name__, tck.Subject(operations=operations)
    for plugin in default_registry().plugins():
        words = [plugin.file_format] + ([] if plugin.batch_type is pa.RecordBatch else [plugin.batch_type.__name__])
        yield "+".join(words), tck.Subject.of(plugin)


def parameters() -> Iterator[Any]:
    for name, subject in subjects():
        for parameter in tck.parametrize(subject).args[1]:
            yield pytest.param(*parameter.values, marks=parameter.marks, id=f"{name}-{parameter.id}")


@pytest.mark.parametrize("check", list(parameters()))
def test_conformance(check: BoundCheck) -> None:
    check()
