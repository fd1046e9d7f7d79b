"""CREATE TABLE, and tables that one request to the catalog creates or replaces together with their rows."""

# ruff: noqa: N802 - the names are those of interfaces of Java

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AssertCreate,
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)
from pyspark.sql import SparkSession

from formatkit.errors import CommitConflictError, CommitStateUnknownError, ConfigurationError, UnsupportedError
from formatkit.registry import default_registry
from formatkit.spark.catalog.current_table import CurrentTable, write_options
from formatkit.spark.catalog.schemas import iceberg_schema, partition_spec
from formatkit.spark.catalog.writes import StagedWrite, Write
from formatkit.write.commit import Change, UncommittedFiles, enable_version3
from formatkit.write.commit.snapshot import propose

__all__ = ["NewTable", "Staged", "WantedTable", "wanted_table"]

_FORMAT_VERSION = "format-version"
_UPDATE: TypeAdapter[TableUpdate] = TypeAdapter(TableUpdate)
_FORMAT = "write.format.default"
_OF_SPARK = ("provider", "owner", "location", "external", "is_managed_location", "table_type")
_ANY_FORMAT = ("formatkit", "iceberg")
_REFUSALS = (CommitFailedException, TableAlreadyExistsError, NoSuchTableError, NoSuchNamespaceError)


@dataclass(frozen=True, kw_only=True)
class WantedTable:
    """What CREATE TABLE asks for."""

    schema: Schema
    spec: PartitionSpec
    properties: Mapping[str, str]
    location: str | None

    def create(self, catalog: Catalog, identifier: tuple[str, ...]) -> Table:
        """Create the table without rows."""
        return catalog.create_table(identifier, **self._arguments())

    def staged(self, catalog: Catalog, identifier: tuple[str, ...]) -> Staged:
        """The table, of which the catalog learns with its first rows."""
        transaction = catalog.create_table_transaction(identifier, **self._arguments())
        return Staged(transaction._table, transaction._updates, (AssertCreate(),))  # noqa: SLF001

    def _arguments(self) -> dict[str, Any]:
        enable_version3()
        return {
            "schema": self.schema,
            "location": self.location,
            "partition_spec": self.spec,
            "properties": dict(self.properties),
        }

    def staged_replacement(self, present: Table) -> Staged:
        """The table with other columns, partitions and rows. Older snapshots stay, for VERSION AS OF."""
        enable_version3()
        metadata = present.metadata
        if self.location is not None and self.location.rstrip("/") != metadata.location.rstrip("/"):
            message = f"the table is at {metadata.location}, and REPLACE TABLE cannot move it to {self.location}"
            raise UnsupportedError(message)
        version = self.properties.get(_FORMAT_VERSION, str(metadata.format_version))
        if version != str(metadata.format_version):
            message = f"the table has format-version {metadata.format_version}; REPLACE TABLE cannot make it {version}"
            raise UnsupportedError(message)
        schema, spec = self._numbered_after(present)
        properties = {key: value for key, value in self.properties.items() if key != _FORMAT_VERSION}
        updates = tuple(map(_UPDATE.validate_python, self._replacing(present, schema, spec, properties)))
        replaced = copy(present)
        replaced.metadata = update_table_metadata(metadata, updates)
        at_head = {"type": "assert-ref-snapshot-id", "ref": MAIN_BRANCH, "snapshot-id": metadata.current_snapshot_id}
        requirements = (AssertTableUUID(uuid=metadata.table_uuid), AssertRefSnapshotId.model_validate(at_head))
        return Staged(replaced, updates, requirements)

    @staticmethod
    def _replacing(
        present: Table, schema: Schema, spec: PartitionSpec, properties: Mapping[str, str]
    ) -> Iterator[dict[str, Any]]:
        """From what the table is to what is wanted, in the words of the REST specification."""
        if MAIN_BRANCH in present.metadata.refs:
            yield {"action": "remove-snapshot-ref", "ref-name": MAIN_BRANCH}
        yield {"action": "add-schema", "schema": schema}
        yield {"action": "set-current-schema", "schema-id": -1}
        yield {"action": "add-spec", "spec": spec}
        yield {"action": "set-default-spec", "spec-id": -1}
        if present.metadata.default_sort_order_id != UNSORTED_SORT_ORDER.order_id:
            yield {"action": "add-sort-order", "sort-order": UNSORTED_SORT_ORDER}
            yield {"action": "set-default-sort-order", "sort-order-id": -1}
        yield {"action": "set-properties", "updates": properties}

    def _numbered_after(self, present: Table) -> tuple[Schema, PartitionSpec]:
        """Columns and partitions with ids that the table never had, so that no old file is read as a new one."""
        before, fields_before = present.metadata.last_column_id, present.metadata.last_partition_id or 999
        schema = Schema.model_validate(_shifted(self.schema.model_dump(mode="json"), before))
        fields = [
            field.model_copy(update={"source_id": field.source_id + before, "field_id": fields_before + 1 + i})
            for i, field in enumerate(self.spec.fields)
        ]
        schema_id = max(each.schema_id for each in present.metadata.schemas) + 1
        spec_id = max(each.spec_id for each in present.metadata.partition_specs) + 1
        return schema.model_copy(update={"schema_id": schema_id}), PartitionSpec(*fields, spec_id=spec_id)


def _shifted(schema: Any, by: int) -> Any:
    """The JSON of a schema with all ids of fields raised."""
    match schema:
        case dict():
            return {
                key: value + by if key in ("id", "element-id", "key-id", "value-id") else _shifted(value, by)
                for key, value in schema.items()
            }
        case list():
            return [_shifted(each, by) for each in schema]
    return schema


def wanted_table(columns: Any, partitions: Any, given_properties: Any) -> WantedTable:
    """What Spark's description of a new table means.

    Args:
        columns: Spark's `StructType`, as the JVM has it.
        partitions: An array of Spark's `Transform`.
        given_properties: A map of Java.

    Raises:
        UnsupportedError: There is no such type, transform or format.
        ConfigurationError: A column of PARTITIONED BY is missing, or a property is wrong.
    """
    schema = iceberg_schema(columns)
    given = {str(key): str(given_properties[key]) for key in given_properties}
    properties = {key: value for key, value in given.items() if key not in _OF_SPARK and not key.startswith("option.")}
    provider = given.get("provider", "formatkit").lower()
    if provider not in _ANY_FORMAT:
        known = default_registry().names()
        if provider not in known:
            message = f"USING {provider}: there is no such format; there are formatkit, iceberg, {', '.join(known)}"
            raise ConfigurationError(message)
        properties.setdefault(_FORMAT, provider)
    version = properties.get(_FORMAT_VERSION, "2")
    if version not in ("1", "2", "3"):
        raise ConfigurationError(f"{_FORMAT_VERSION} is {version!r}; it must be 1, 2 or 3")
    return WantedTable(
        schema=schema,
        spec=partition_spec(schema, list(partitions)),
        properties=properties,
        location=given.get("location"),
    )


@dataclass(frozen=True)
class Staged:
    """A table as it will be, and what makes it so.

    Attributes:
        table: With the metadata that it will have.
        updates: From what the catalog has to that.
        requirements: What must still be true then.
    """

    table: Table
    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]

    def commit(self, files: tuple[DataFile, ...], properties: Mapping[str, str]) -> None:
        """Create or replace the table with these files as its rows.

        Raises:
            CommitConflictError: Another one was faster. The files are deleted.
            CommitStateUnknownError: The catalog did not say what happened. Nothing was deleted.
        """
        table = self.table
        with UncommittedFiles(table.io) as data, UncommittedFiles(table.io) as metadata:
            for file in files:
                data.add(file.file_path)
            updates = self.updates
            if files:
                change = Change(operation=Operation.APPEND, added=files, properties=properties)
                snapshot_id = table.metadata.new_snapshot_id()
                updates = (*updates, *propose(table, change, MAIN_BRANCH, snapshot_id, metadata).updates)
            data.keep()
            metadata.keep()
            try:
                table.catalog.commit_table(table, self.requirements, updates)
            except _REFUSALS as error:
                data.unkeep()
                metadata.unkeep()
                message = f"{'.'.join(table.name())} was created or changed by another writer meanwhile: {error}"
                raise CommitConflictError(message) from error
            except Exception as error:
                message = (
                    f"the catalog did not say whether {'.'.join(table.name())} was created ({type(error).__name__}: "
                    f"{error}); no file was deleted. Look whether the table is there before you run the statement again"
                )
                raise CommitStateUnknownError(message) from error


class NewTable(CurrentTable):
    """A table that is created or replaced once its rows are written."""

    def __init__(self, spark: SparkSession, staged: Staged, name: str) -> None:
        super().__init__(spark, staged.table, name)
        self._staged = staged
        self._write: StagedWrite | None = None

    def newWrite(self, _mode: str, _replaced: Any, info: Any) -> Write:
        self._write = StagedWrite(self.spark, self.table, self.name, write_options(info))
        return self._write

    def commitStagedChanges(self) -> None:
        files, properties = ((), {}) if self._write is None else self._write.waiting()
        self._staged.commit(files, properties)

    def abortStagedChanges(self) -> None:
        if self._write is not None:
            self._write.abort()
