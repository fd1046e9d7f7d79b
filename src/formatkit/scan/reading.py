"""What the tasks of a scan have in common, and the plugins that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyiceberg.schema import Schema

from formatkit.contract.batch import DataBatch
from formatkit.contract.format import FormatPlugin
from formatkit.contract.storage import ByteSource
from formatkit.errors import FormatNotRegisteredError
from formatkit.kernel import FileRequest
from formatkit.registry import FormatRegistry
from formatkit.scan.deletes import DeleteLoader, DeleteReader, KeySchemas
from formatkit.scan.tasks import PUFFIN, DeleteFile, FileTask

__all__ = ["TaskReader", "plugins_for"]

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

    def delete_loader(
        self, tasks: Iterable[FileTask], open_source: Callable[[FileTask | DeleteFile], ByteSource] | None = None
    ) -> DeleteLoader[B]:
        """For loading the deletes of the tasks once, through sources of their own if need be."""
        reader = DeleteReader(
            plugins=self.plugins,
            operations=self.operations,
            open_source=open_source or self.open_source,
            request=self.request,
        )
        return DeleteLoader(tasks, reader, self.keys)
