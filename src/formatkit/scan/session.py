"""One run over the tasks of a scan."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyiceberg.expressions import AlwaysTrue

from formatkit.errors import enough_memory
from formatkit.forks import cached
from formatkit.kernel import FileRequest, FileStream, read
from formatkit.kernel.predicates import leaves
from formatkit.scan.open_files import OpenFiles
from formatkit.scan.run_sources import RunSources
from formatkit.scan.tasks import FileTask

if TYPE_CHECKING:
    from formatkit.scan.reading import TaskReader

__all__ = ["Session"]

B = TypeVar("B")


class Session(Generic[B]):
    """Reads tasks, each once and from whatever thread. Splits of a file share its open description."""

    def __init__(self, reader: TaskReader[B], tasks: Sequence[FileTask]) -> None:
        self._reader = reader
        self.sources = RunSources(reader.open_source, owned=reader.owns_sources)
        self._files = OpenFiles(
            tasks,
            reader.plugins,
            self.sources,
            owns_sources=reader.owns_sources,
            properties=reader.request.properties,
        )
        with_deletes = [task for task in tasks if self._heeds_deletes(task)]
        self._deletes = reader.delete_loader(with_deletes, self.sources)
        self._conform = reader.operations.evolve(reader.schema, reader.schema, {})
        self.counters: Counter[str] = Counter()
        self._lock = threading.Lock()

    def announce(self, task: FileTask) -> None:
        """Begin to fetch what a task's files are opened with."""
        self._files.announce(task)
        self._announce_deletes(task)

    def announce_first(self, task: FileTask, *, whole: bool) -> None:
        """The same for a task that is about to start while nothing else is under way.

        Args:
            task: The task.
            whole: Whether all of it will be read as far as the consumer is concerned. If nothing else speaks against
                that, the beginning of a distant file is fetched while its description is.
        """
        self._files.announce_first(task, whole=whole and self._share == 1 and isinstance(task.residual, AlwaysTrue))
        self._announce_deletes(task)

    def bytes_to_read(self, task: FileTask) -> int:
        """About how much a task reads: of a file's columns only some may be wanted."""
        return int(task.bytes_to_read * self._share)

    def is_useful_ahead(self, task: FileTask) -> bool:
        """Whether decoding would wait for the file of a task that was announced."""
        return self.sources.is_useful_ahead(task.location)

    def start(self, task: FileTask) -> FileStream[B]:
        """Open a task's file and let its reader say what it will need. What comes of it goes to `batches` or `end`."""
        with enough_memory(task.location):
            file = self._files.open(task)
            try:
                request = replace(self._request(task), split=self._files.part(task))
                if request.heeds_deletes:
                    request = replace(request, deletes=self._deletes.deletes_of(task))
                return read(file, self._reader.operations, request)
            except BaseException:
                self._files.release(task)
                raise

    def batches(self, task: FileTask, stream: FileStream[B]) -> Iterator[B]:
        """The batches of a task that was started, in the one form of the output schema."""
        try:
            with enough_memory(task.location):
                yield from map(self._conform, stream)
        finally:
            self.end(task, stream)

    def end(self, task: FileTask, stream: FileStream[B]) -> None:
        """Release what a task holds."""
        try:
            stream.close()
        finally:
            self._count(stream.counters)
            self._files.release(task)

    def close(self) -> None:
        """Close what is still open. No task may be running."""
        try:
            self._files.close()
        finally:
            self.sources.close()
        self._count({**self._deletes.counters, "files_opened": self._files.opened, **self.sources.counters()})

    @cached
    def _share(self) -> float:
        """How many of the table's columns are read, in proportion; parts of a column count as the column."""
        request = self._reader.request
        if request.table_schema is None or not request.table_schema.fields:
            return 1.0
        columns = {field.field_id for field in request.table_schema.fields}
        wanted = {field.field_id for field in request.schema.fields}
        wanted |= {leaf.term.ref().field.field_id for leaf in leaves(request.predicate)}
        return len(columns & wanted) / len(columns)

    def _announce_deletes(self, task: FileTask) -> None:
        if self._heeds_deletes(task):
            for delete in task.deletes:
                self._files.announce(delete)

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
        )

    def _partition(self, task: FileTask) -> tuple[Any, ...] | None:
        values = task.partition
        return None if values is None else tuple(values[position] for position in self._reader.partition_positions)

    def _count(self, counters: Mapping[str, Any]) -> None:
        with self._lock:
            self.counters.update({name: value for name, value in counters.items() if isinstance(value, int)})
