"""Opens pyiceberg's list of file formats for those that are installed, and gives each a writer."""
# ruff: noqa: SLF001 - pyiceberg has no public way to take a writer out again

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.io import OutputFile
from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.io.pyarrow import ParquetFormatModel
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Properties
from pyiceberg.types import NestedField

from formatkit.integrations.pyiceberg.writers import DataFileWriter
from formatkit.registry import FormatRegistry

__all__ = [
    "FormatModel",
    "add_members",
    "give_way",
    "has_foreign_writer",
    "register_models",
    "remove_members",
    "unregister_models",
]


class FormatModel:
    """A format of formatkit, as pyiceberg's writing asks for it."""

    def __init__(self, file_format: FileFormat, name: str, registry: FormatRegistry) -> None:
        self._file_format = file_format
        self._name = name
        self._registry = registry

    @property
    def format(self) -> FileFormat:
        return self._file_format

    def file_extension(self) -> str:
        return self._name

    def create_writer(self, output_file: OutputFile, file_schema: Schema, properties: Properties) -> DataFileWriter:
        return DataFileWriter(output_file, file_schema, properties, self._name, self._registry)

    def add_field_metadata(self, field: NestedField, metadata: dict[bytes, bytes], include_field_ids: bool) -> None:
        """Writers take ids from the schema that travels with the batches."""


def add_members(names: Iterable[str]) -> list[str]:
    """Make names members of pyiceberg's `FileFormat`; returns those that were not.

    The enum is closed, and manifests, properties and writers all go through it: what it lacks cannot be read from a
    manifest, let alone written. Python's enums keep their members in these places.
    """
    added = [name.upper() for name in names if name.upper() not in FileFormat.__members__]
    for name in added:
        member = str.__new__(FileFormat, name)
        member._name_ = name
        member._value_ = name
        setattr(FileFormat, name, member)
        FileFormat._member_names_.append(name)
        FileFormat._member_map_[name] = member
        FileFormat._value2member_map_[name] = member
    return added


def remove_members(names: Iterable[str]) -> None:
    """Take members out again."""
    for name in names:
        FileFormat._member_names_.remove(name)
        del FileFormat._member_map_[name]
        del FileFormat._value2member_map_[name]
        delattr(FileFormat, name)


def register_models(registry: FormatRegistry, names: Iterable[str]) -> None:
    """Register writers for the formats that pyiceberg has none for."""
    for name in names:
        file_format = FileFormat(name)
        if file_format not in FileFormatFactory._registry:
            FileFormatFactory.register(FormatModel(file_format, name, registry))


def unregister_models() -> None:
    """Take formatkit's writers out again; pyiceberg itself has no way."""
    for file_format, model in list(FileFormatFactory._registry.items()):
        if isinstance(model, FormatModel):
            del FileFormatFactory._registry[file_format]


def give_way(file_format: FileFormat) -> None:
    """Make room for a writer that somebody else registers, which then counts."""
    if isinstance(FileFormatFactory._registry.get(file_format), FormatModel):
        del FileFormatFactory._registry[file_format]


def has_foreign_writer(file_format: str) -> bool:
    """Whether somebody else than pyiceberg and formatkit registered a writer."""
    return any(
        known.value == file_format.upper() and not isinstance(model, FormatModel | ParquetFormatModel)
        for known, model in list(FileFormatFactory._registry.items())
    )
