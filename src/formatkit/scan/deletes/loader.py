"""Loads the deletes of a run: each delete file once, whatever number of tasks needs it, and no longer than they do."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from pyiceberg.schema import Schema

from formatkit.contract.batch import Longs
from formatkit.errors import CorruptFileError
from formatkit.kernel import EqualityDeletes, RowDeletes
from formatkit.scan.deletes.keys import KeySchemas
from formatkit.scan.deletes.reading import DeleteReader
from formatkit.scan.deletes.sharing import Shared
from formatkit.scan.tasks import DELETION_VECTORS, EQUALITY_DELETES, DeleteFile, FileTask

__all__ = ["DeleteLoader"]

B = TypeVar("B")

_Group = tuple[tuple[Any, ...], tuple[int, ...]]
"""The scope and the columns of equality deletes."""


class DeleteLoader(Generic[B]):
    """The deletes of the tasks of one run.

    Args:
        tasks: All tasks of the run; each asks for its deletes once.
        reader: Reads delete files.
        keys: Finds the columns of equality deletes.
    """

    def __init__(self, tasks: Iterable[FileTask], reader: DeleteReader[B], keys: KeySchemas) -> None:
        self._reader = reader
        self._canonical = reader.locations.canonical
        self._paths: set[str] = set()
        self._deleted: dict[str, Shared[Longs]] = {}
        self._position_files: dict[str, _PositionFile] = {}
        self._references: dict[str, Shared[dict[int, str | None]]] = {}
        self._groups: dict[_Group, _KeyGroup[B]] = {}
        for task in tasks:
            if any(each.kind != EQUALITY_DELETES for each in task.deletes):
                self._expect_positions(task)
            for group, files in _groups(task).items():
                if group not in self._groups:
                    self._groups[group] = _KeyGroup(reader, keys.of(group[1]))
                self._groups[group].expect(files)

    @property
    def counters(self) -> Counter[str]:
        """What was read up to now."""
        return self._reader.counters

    def deletes_of(self, task: FileTask) -> RowDeletes[B] | None:
        """What deletes rows of a task's file."""
        if not task.deletes:
            return None
        deleted = self._deleted.get(task.location)
        equality = [self._groups[group].deletes_of(task) for group in _groups(task)]
        return RowDeletes(
            positions=deleted.take() if deleted is not None else np.empty(0, np.int64),
            equality=tuple(each for each in equality if each.first != 0),
        )

    def _expect_positions(self, task: FileTask) -> None:
        if task.location not in self._deleted:
            stored = (each for each in task.deletes if each.kind != EQUALITY_DELETES)
            # Metadata may list a file twice.
            files = list({(each.location, each.content_offset): each for each in stored}.values())
            path = self._canonical(task.location)
            self._paths.add(path)
            self._deleted[task.location] = Shared(lambda: self._load_positions(path, files))
            for each in files:
                self._expect_file(each, path)
        self._deleted[task.location].users += 1

    def _expect_file(self, file: DeleteFile, path: str) -> None:
        if file.kind == DELETION_VECTORS:
            references = self._references.setdefault(file.location, Shared(lambda: self._reader.references(file)))
            references.users += 1
        else:
            shared = self._position_files.setdefault(file.location, _PositionFile(self._reader, file, self._paths))
            shared.expect(path)

    def _load_positions(self, path: str, files: Iterable[DeleteFile]) -> Longs:
        """The deleted positions of one data file, ascending, each once."""
        parts: list[Longs] = []
        for file in files:
            if file.kind == DELETION_VECTORS:
                self._check_reference(path, file)
                return self._reader.vector(file)
            parts += self._position_files[file.location].positions_in(path)
        return _ascending(parts)

    def _check_reference(self, path: str, file: DeleteFile) -> None:
        belongs_to = self._references[file.location].take().get(file.content_offset or 0)
        if belongs_to is not None and self._canonical(belongs_to) != path:
            message = (
                f"the deletion vector at byte {file.content_offset} of {file.location} belongs to {belongs_to}, "
                f"but the table has it for {path}"
            )
            raise CorruptFileError(message, location=file.location)


class _PositionFile:
    """A file of position deletes, which may be about many data files."""

    def __init__(self, reader: DeleteReader[Any], file: DeleteFile, known: Collection[str]) -> None:
        self._paths: set[str] = set()
        self._loaded = Shared(lambda: reader.positions(file, self._paths, known))

    def expect(self, path: str) -> None:
        """Someone will ask for this data file, once."""
        self._paths.add(path)
        self._loaded.users += 1

    def positions_in(self, path: str) -> list[Longs]:
        return self._loaded.take().pop(path)


class _Keys(NamedTuple):
    """Key rows in falling order of sequence numbers, so that those which apply to a file are the first ones.

    Attributes:
        locate: Finds rows among them.
        sequence_numbers: Of each delete file, negated, so that they ascend.
        ends: How many rows there are up to the end of each file, beginning with none.
    """

    locate: Callable[[Any], Longs]
    sequence_numbers: Sequence[int]
    ends: Sequence[int]


class _KeyGroup(Generic[B]):
    """Equality deletes that compare the same columns and apply to the same partition."""

    def __init__(self, reader: DeleteReader[B], schema: Schema) -> None:
        self._reader = reader
        self._schema = schema
        self._files: dict[str, DeleteFile] = {}
        self._loaded = Shared(self._load)

    def expect(self, files: Iterable[DeleteFile]) -> None:
        """A task will ask for these deletes, once."""
        self._files.update((each.location, each) for each in files)
        self._loaded.users += 1

    def deletes_of(self, task: FileTask) -> EqualityDeletes[B]:
        """The key rows that are younger than a task's file."""
        keys = self._loaded.take()
        first = None
        if task.sequence_number is not None:
            first = keys.ends[bisect_left(keys.sequence_numbers, -task.sequence_number)]
        return EqualityDeletes(schema=self._schema, locate=keys.locate, first=first)

    def _load(self) -> _Keys:
        files = sorted(self._files.values(), key=lambda each: -each.sequence_number)
        batches = [self._reader.keys(each, self._schema) for each in files]
        operations = self._reader.operations
        rows = (sum(map(operations.num_rows, each)) for each in batches)
        return _Keys(
            locate=operations.locate(self._schema, [batch for each in batches for batch in each]),
            sequence_numbers=[-each.sequence_number for each in files],
            ends=list(accumulate(rows, initial=0)),
        )


def _ascending(parts: Sequence[Longs]) -> Longs:
    """All numbers in order, each once. Most files have them so, and NumPy's `unique` would hash them anyway."""
    if not parts:
        return np.empty(0, np.int64)
    numbers = np.concatenate(parts) if len(parts) > 1 else parts[0]
    if not (numbers[1:] > numbers[:-1]).all():
        numbers = np.sort(numbers)
        numbers = numbers[np.append(True, numbers[1:] != numbers[:-1])] if numbers.size else numbers
    return numbers


def _groups(task: FileTask) -> dict[_Group, list[DeleteFile]]:
    groups: dict[_Group, list[DeleteFile]] = defaultdict(list)
    for each in task.deletes:
        if each.kind == EQUALITY_DELETES:
            groups[each.scope, each.equality_ids].append(each)
    return groups
