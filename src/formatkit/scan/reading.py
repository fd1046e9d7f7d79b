"""Reads tasks: from a location to the batches of the output."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pyiceberg.schema import Schema

from formatkit.contract.batch import DataBatch
from formatkit.contract.format import FormatFile, FormatPlugin
from formatkit.contract.options import OpenOptions
from formatkit.contract.storage import ByteSource
from formatkit.errors import FormatNotRegisteredError
from formatkit.kernel import FileRequest, read
from formatkit.registry import FormatRegistry
from formatkit.scan.deletes import DeleteLoader, DeleteReader, KeySchemas
from formatkit.scan.tasks import PUFFIN, DeleteFile, FileTask

__all__ = ["Session", "TaskReader", "plugins_for"]

B = TypeVar("B")


def plugins_for(tasks: Iterable[FileTask], registry: FormatRegistry, batch_type: type[B]) -> dict[str, FormatPlugin[B]]:
    """The plugin of each format that occurs. What is missing shows now, with the file that needs it."""
    plugins: dict[str, FormatPlugin[B]] = {}
    for task in tasks:
        files: Iterable[FileTask | DeleteFile] = (task, *task.deletes)
        for file in files:
            if file.file_format != PUFFIN and file.file_format not in plugins:
                plugins[file.file_format] = _plugin(file, registry, batch_type)
    return plugins


def _plugin(file: FileTask | DeleteFile, registry: FormatRegistry, batch_type: type[B]) -> FormatPlugin[B]:
    try:
        return registry.plugin(file.file_format, batch_type)
    except FormatNotRegisteredError as error:
        message = f"cannot read {file.location}: {error.message}"
        raise FormatNotRegisteredError(message, location=file.location, file_format=file.file_format) from None


@dataclass(frozen=True, kw_only=True)
class TaskReader(Generic[B]):
    """Everything that the tasks of one scan have in common.

    Attributes:
        plugins: By file format.
        operations: On the batches.
        open_source: From a task or a delete file to its bytes.
        owns_sources: Whether sources are closed after use.
        keys: Finds the columns of equality deletes.
        request: What is asked of the whole scan; of each file, what its task says of it.
        partition_positions: Which values of a task's partition the output has.
    """

    plugins: Mapping[str, FormatPlugin[B]]
    operations: DataBatch[B]
    open_source: Callable[[FileTask | DeleteFile], ByteSource]
    request: FileRequest
    keys: KeySchemas
    owns_sources: bool = True
    partition_positions: tuple[int, ...] = ()

    @property
    def schema(self) -> Schema:
        return self.request.schema

    def session(self, tasks: Sequence[FileTask]) -> Session[B]:
        """For reading the tasks once."""
        return Session(self, tasks)

    def delete_loader(self, tasks: Iterable[FileTask]) -> DeleteLoader[B]:
        """For loading the deletes of the tasks once."""
        reader = DeleteReader(
            plugins=self.plugins, operations=self.operations, open_source=self.open_source, request=self.request
        )
        return DeleteLoader(tasks, reader, self.keys)


@dataclass
class _OpenFile(Generic[B]):
    """A file that several tasks read; open while one of them is still to come."""

    tasks_left: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    file: FormatFile[B] | None = None
    source: ByteSource | None = None

    def close(self) -> None:
        file, source, self.file, self.source = self.file, self.source, None, None
        try:
            if file is not None:
                file.close()
        finally:
            if source is not None:
                source.close()


class Session(Generic[B]):
    """One run over tasks. Splits of a file share its open description, from whatever thread they are read."""

    def __init__(self, reader: TaskReader[B], tasks: Sequence[FileTask]) -> None:
        self._reader = reader
        self._files = {location: _OpenFile[B](count) for location, count in Counter(_locations(tasks)).items()}
        self._deletes = reader.delete_loader([task for task in tasks if self._heeds_deletes(task)])
        self._conform = reader.operations.evolve(reader.schema, reader.schema, {})
        self.counters: Counter[str] = Counter()
        self._lock = threading.Lock()

    def batches(self, task: FileTask) -> Iterator[B]:
        """The batches of a task, in the one form of the output schema."""
        with self._opened(task) as file:
            request = self._request(task)
            if request.heeds_deletes:
                request = replace(request, deletes=self._deletes.deletes_of(task))
            stream = read(file, self._reader.operations, request)
            try:
                yield from map(self._conform, stream)
            finally:
                stream.close()
                self._count(stream.counters)

    def close(self) -> None:
        """Close what is still open. No task may be running."""
        self._count(self._deletes.counters)
        for file in self._files.values():
            file.close()

    def _heeds_deletes(self, task: FileTask) -> bool:
        return bool(task.deletes) and self._request(task).heeds_deletes

    def _request(self, task: FileTask) -> FileRequest:
        return replace(
            self._reader.request,
            location=task.location,
            predicate=task.residual,
            partition_constants=task.partition_constants,
            spec_id=task.spec_id,
            partition=self._partition(task),
            first_row_id=task.first_row_id,
            sequence_number=task.sequence_number,
            split=task.split,
        )

    def _partition(self, task: FileTask) -> tuple[Any, ...] | None:
        values = task.partition
        return None if values is None else tuple(values[position] for position in self._reader.partition_positions)

    @contextmanager
    def _opened(self, task: FileTask) -> Iterator[FormatFile[B]]:
        entry = self._files[task.location]
        with entry.lock:
            file = entry.file if entry.file is not None else self._open(entry, task)
        try:
            yield file
        finally:
            with entry.lock:
                entry.tasks_left -= 1
                if entry.tasks_left == 0:
                    entry.close()

    def _open(self, entry: _OpenFile[B], task: FileTask) -> FormatFile[B]:
        source = self._reader.open_source(task)
        entry.source = source if self._reader.owns_sources else None
        try:
            reader = self._reader.plugins[task.file_format].reader()
            entry.file = file = reader.open(source, OpenOptions(properties=self._reader.request.properties))
        except BaseException:
            entry.close()
            raise
        with self._lock:
            self.counters["files_opened"] += 1
        return file

    def _count(self, counters: Mapping[str, Any]) -> None:
        with self._lock:
            self.counters.update({name: value for name, value in counters.items() if isinstance(value, int)})


def _locations(tasks: Iterable[FileTask]) -> Iterator[str]:
    return (task.location for task in tasks)
