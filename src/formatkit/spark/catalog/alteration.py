"""ALTER TABLE: Spark's changes of columns and properties as one transaction of pyiceberg."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyspark.sql.types as st
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import PrimitiveType

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.spark.catalog.schemas import iceberg_type
from formatkit.write.commit import enable_version3

__all__ = ["alter_table"]

_OF_COLUMN = (
    "AddColumn",
    "RenameColumn",
    "UpdateColumnType",
    "UpdateColumnNullability",
    "UpdateColumnComment",
    "UpdateColumnPosition",
    "DeleteColumn",
)
_OF_TABLE = ("SetProperty", "RemoveProperty")
_RESERVED = ("provider", "owner", "external", "is_managed_location", "table_type")


def alter_table(table: Table, changes: Sequence[Any]) -> None:
    """Carry out Spark's changes, all of them or none.

    Raises:
        UnsupportedError: Iceberg, or pyiceberg, has no such change.
        ConfigurationError: A change does not fit the table.
    """
    enable_version3()
    of_table = [each for each in changes if each.getClass().getSimpleName() in _OF_TABLE]
    columns = [each for each in changes if each not in of_table]
    with table.transaction() as transaction:
        if columns:
            with transaction.update_schema() as update:
                for change in columns:
                    _change_column(update, table, change)
        for change in of_table:
            _change_table(transaction, change)


def _change_column(update: UpdateSchema, table: Table, change: Any) -> None:
    kind = change.getClass().getSimpleName()
    if kind not in _OF_COLUMN:
        raise UnsupportedError(f"ALTER TABLE: {kind} is not supported")
    path = tuple(change.fieldNames())
    name = ".".join(path)
    match kind:
        case "AddColumn":
            _add_column(update, change, path)
        case "RenameColumn":
            update.rename_column(path, change.newName())
        case "UpdateColumnType":
            wanted = iceberg_type(_spark_type(change.newDataType()), name)
            if not isinstance(wanted, PrimitiveType):
                raise UnsupportedError(f"column {name!r}: the type {wanted} is changed field by field")
            update.update_column(path, field_type=wanted)
        case "UpdateColumnNullability":
            update.update_column(path, required=not change.nullable())
        case "UpdateColumnComment":
            update.update_column(path, doc=change.newComment())
        case "UpdateColumnPosition":
            _move(update, path, change.position())
        case "DeleteColumn":
            _delete_column(update, table, change, path)


def _add_column(update: UpdateSchema, change: Any, path: tuple[str, ...]) -> None:
    name = ".".join(path)
    if change.defaultValue() is not None:
        raise UnsupportedError(f"column {name!r}: defaults cannot be set by ALTER TABLE; add the column without one")
    if not change.isNullable():
        raise ConfigurationError(f"column {name!r} cannot be NOT NULL: the rows that are there have no value for it")
    update.add_column(path, iceberg_type(_spark_type(change.dataType()), name), doc=change.comment())
    if change.position() is not None:
        _move(update, path, change.position())


def _delete_column(update: UpdateSchema, table: Table, change: Any, path: tuple[str, ...]) -> None:
    name = ".".join(path)
    try:
        field = table.schema().find_field(name)
    except ValueError:
        if change.ifExists():
            return
        raise
    for spec_field in table.spec().fields:
        if spec_field.source_id == field.field_id:
            raise ConfigurationError(
                f"column {name!r} cannot be dropped: the table is partitioned by {spec_field.name}"
            )
    update.delete_column(path)


def _move(update: UpdateSchema, path: tuple[str, ...], position: Any) -> None:
    if position.getClass().getSimpleName() == "First":
        update.move_first(path)
    else:
        update.move_after(path, (*path[:-1], position.column()))


def _change_table(transaction: Transaction, change: Any) -> None:
    kind = change.getClass().getSimpleName()
    key = change.property()
    if key in _RESERVED or key == "location":
        raise UnsupportedError(f"ALTER TABLE: {key} cannot be changed")
    if kind == "RemoveProperty":
        transaction.remove_properties(key)
    elif key == "format-version":
        _upgrade(transaction, change.value())
    else:
        transaction.set_properties({key: change.value()})


def _upgrade(transaction: Transaction, text: str) -> None:
    if text not in ("1", "2", "3"):
        raise ConfigurationError(f"format-version is {text!r}; it must be 1, 2 or 3")
    present = transaction.table_metadata.format_version
    if int(text) == present:
        return
    if int(text) < present:
        raise ConfigurationError(f"the table has format-version {present} and cannot go back to {text}")
    if text == "3":
        message = (
            "pyiceberg cannot upgrade a table to format-version 3; create it so: TBLPROPERTIES ('format-version'='3')"
        )
        raise UnsupportedError(message)
    transaction.upgrade_table_version(int(text))  # type: ignore[arg-type]


def _spark_type(java_type: Any) -> st.DataType:
    (field,) = st.StructType.fromJson(
        {
            "type": "struct",
            "fields": [{"name": "c", "type": json.loads(java_type.json()), "nullable": True, "metadata": {}}],
        }
    )
    kind: st.DataType = field.dataType
    return kind
