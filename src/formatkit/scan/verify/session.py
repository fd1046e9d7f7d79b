"""Reads each task a second time without skipping, and compares the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema

from formatkit.contract.batch import Longs
from formatkit.contract.format import FormatFile, FormatPlugin, FormatReader
from formatkit.contract.metadata_columns import DELETED, POS
from formatkit.contract.options import OpenOptions, ReadOptions
from formatkit.contract.results import ReadResult
from formatkit.contract.storage import ByteSource
from formatkit.errors import MisleadingStatisticsError
from formatkit.kernel import FileStream
from formatkit.scan.session import Session
from formatkit.scan.tasks import FileTask, Verification
from formatkit.scan.verify import VERIFY_SKIPPING

if TYPE_CHECKING:
    from formatkit.scan.reading import TaskReader

__all__ = ["VerifyingSession"]

B = TypeVar("B")

_SHOWN_POSITIONS = 5
_ADVICE = f"`formatkit validate` shows what is wrong; rewrite the file, or set {VERIFY_SKIPPING} to false"


class VerifyingSession(Session[B]):
    """Reads tasks as they were planned, and raises if reading them without skipping gives other rows.

    Rows are compared by their positions in the file, and by whether they are deleted if that is asked for.
    """

    def __init__(self, reader: TaskReader[B], tasks: Sequence[FileTask]) -> None:
        output, operations = reader.schema, reader.operations
        ids = [field.field_id for field in output.fields]
        with_positions = output if POS.field_id in ids else Schema(*output.fields, POS)
        super().__init__(replace(reader, request=replace(reader.request, schema=with_positions)), tasks)
        compared = Schema(POS, DELETED) if DELETED.field_id in ids else Schema(POS)
        self._output = operations.project(with_positions, ids)
        self._found_keys = _keys(reader, with_positions)
        self._expected_keys = _keys(reader, compared)
        self._without_skipping = Session(_without_skipping(reader, compared), list(map(_unskipped, tasks)))

    def batches(self, task: FileTask, stream: FileStream[B]) -> Iterator[B]:
        whole = _unskipped(task)
        with closing(cast("Any", super().batches(task, stream))) as found:
            unskipped = self._without_skipping.batches(whole, self._without_skipping.start(whole))
            with closing(cast("Any", unskipped)) as batches:
                expected = _Ahead(map(self._expected_keys, batches))
                for batch in found:
                    keys = self._found_keys(batch)
                    _compare(task, keys, expected.up_to(keys))
                    yield self._output(batch)
                for keys in expected.rest():
                    _compare(task, keys[:0], keys)
        self._count({"tasks_verified": 1})

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._without_skipping.close()


def _keys(reader: TaskReader[B], schema: Schema) -> Callable[[B], Longs]:
    """What is compared of each row, as an ascending number: its position, and whether it is deleted."""
    positions = reader.operations.longs(schema, POS.field_id)
    if all(field.field_id != DELETED.field_id for field in schema.fields):
        return lambda batch: positions(batch) * 2
    deleted = reader.operations.distinct(schema, DELETED.field_id)

    def keys(batch: B) -> Longs:
        values, codes = deleted(batch)
        marks: Longs = np.array(values, np.int64)[codes] if len(values) else codes
        return positions(batch) * 2 + marks

    return keys


class _Ahead:
    """The keys of all rows, taken as far as the other read has come."""

    def __init__(self, keys: Iterator[Longs]) -> None:
        self._keys = keys
        self._waiting: Longs = np.empty(0, np.int64)

    def up_to(self, keys: Longs) -> Longs:
        """All keys of rows up to the last one of `keys`."""
        last = keys[-1] | 1 if keys.size else -1
        parts = [self._waiting]
        while not parts[-1].size or parts[-1][-1] <= last:
            more = next(self._keys, None)
            if more is None:
                break
            parts.append(more)
        together = np.concatenate(parts)
        end = int(np.searchsorted(together, last, side="right"))
        self._waiting = together[end:]
        return together[:end]

    def rest(self) -> Iterator[Longs]:
        yield self._waiting
        yield from self._keys


def _compare(task: FileTask, found: Longs, expected: Longs) -> None:
    if not np.array_equal(found, expected):
        missing = np.setdiff1d(expected, found)[:_SHOWN_POSITIONS] >> 1
        surplus = np.setdiff1d(found, expected)[:_SHOWN_POSITIONS] >> 1
        raise _misleading(task, tuple(missing.tolist()), tuple(surplus.tolist()))


def _misleading(task: FileTask, missing: tuple[int, ...], surplus: tuple[int, ...]) -> MisleadingStatisticsError:
    wrong = [
        f"{what} the rows at {', '.join(map(str, positions))}{' and perhaps more' * (len(positions) > 1)}"
        for what, positions in (("leaves out", missing), ("wrongly returns", surplus))
        if positions
    ]
    message = (
        f"{task.location}: the scan {' and '.join(wrong)}, because of {_suspects(task)}; reading the file without "
        f"skipping gives other rows. {_ADVICE}"
    )
    return MisleadingStatisticsError(message, location=task.location, missing=missing, surplus=surplus)


def _suspects(task: FileTask) -> str:
    """What may have misled the scan, as far as that is known."""
    check = task.verification
    if check is None:
        return f"what the {task.file_format} file says of its rows (statistics, indexes, filters)"
    if check.skipped_by is not None:
        return check.skipped_by
    suspects = [f"what the {task.file_format} file says of its rows (statistics, indexes, filters)"]
    if task.residual is not check.predicate:
        suspects.insert(0, "its partition values or column metrics in the manifest")
    if check.deletes != task.deletes:
        names = sorted({each.location for each in check.deletes} - {each.location for each in task.deletes})
        suspects.insert(0, f"the metrics of delete files that were skipped ({', '.join(names[:_SHOWN_POSITIONS])})")
    elif check.deletes:
        suspects.append("what its delete files say of their rows")
    return ", or ".join(suspects)


def _unskipped(task: FileTask) -> FileTask:
    check = task.verification or Verification(predicate=task.residual, deletes=task.deletes)
    return replace(task, residual=check.predicate, deletes=check.deletes, verification=None)


def _without_skipping(reader: TaskReader[B], schema: Schema) -> TaskReader[B]:
    # Without a predicate of the whole scan no key rows of equality deletes are filtered out, either.
    request = replace(reader.request, schema=schema, predicate=AlwaysTrue(), dictionary_columns=frozenset())
    plugins: dict[str, Any] = {name: _Plugin(plugin) for name, plugin in reader.plugins.items()}
    return replace(reader, plugins=plugins, request=request, partition_positions=())


@dataclass(frozen=True)
class _Plugin:
    """A format whose reader is given no predicate, so that it can skip nothing."""

    plugin: FormatPlugin[Any]

    def reader(self) -> _Reader:
        return _Reader(self.plugin.reader())


@dataclass(frozen=True)
class _Reader:
    given: FormatReader[Any]

    def open(self, source: ByteSource, options: OpenOptions) -> _File:
        return _File(self.given.open(source, options))


@dataclass(frozen=True)
class _File:
    given: FormatFile[Any]

    def read(self, options: ReadOptions) -> ReadResult[Any]:
        result = self.given.read(replace(options, predicate=AlwaysTrue(), target=None))
        return replace(result, residual=options.predicate)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.given, name)
