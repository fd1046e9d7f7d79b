"""What a writer needs to know of a table, small enough to be sent to other processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.io.pyiceberg.trust import names_code
from formatkit.write.sorting import is_sortable

__all__ = ["DEFAULT_FORMAT", "TableWriteConfig"]

DEFAULT_FORMAT = "write.format.default"
_TARGET_BYTES = "write.target-file-size-bytes"
_DEFAULT_TARGET_BYTES = 512 << 20
_ENCRYPTION_KEY = "encryption.key-id"


@dataclass(frozen=True, kw_only=True)
class TableWriteConfig:
    """How data files of a table are written. Can be pickled.

    Attributes:
        location: The table's location.
        schema: The columns that are written.
        spec: How rows are placed in partitions.
        sort_order: How the rows of each file are sorted.
        sort_order_id: What the table calls that order; None if they are not sorted, or in an order of the caller's own.
        file_format: The format's name.
        properties: The table's properties, with those on top that were given for this write.
        target_file_bytes: About how long a file gets.
        trusted: What may name code to import: the caller's properties, and the catalog's configuration.
    """

    location: str
    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    sort_order_id: int | None
    file_format: str
    properties: Mapping[str, str]
    target_file_bytes: int
    trusted: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        metadata: TableMetadata,
        *,
        file_format: str | None = None,
        schema: Schema | None = None,
        sort_order: SortOrder | None = None,
        properties: Mapping[str, str] | None = None,
        target_file_bytes: int | None = None,
        catalog_properties: Mapping[str, Any] | None = None,
    ) -> TableWriteConfig:
        """What the metadata says, where nothing else was asked for; arguments as in `TableWriter`."""
        merged = {**metadata.properties, **(properties or {})}
        if _ENCRYPTION_KEY in merged:
            raise UnsupportedError(
                f"the table is encrypted with the key {merged[_ENCRYPTION_KEY]!r} ({_ENCRYPTION_KEY}), which formatkit "
                "cannot do for tables; nothing is written in plain text instead"
            )
        schema = schema or metadata.schema()
        order = sort_order or _default_sort_order(metadata, schema)
        return cls(
            location=metadata.location,
            schema=schema,
            spec=metadata.spec(),
            sort_order=order,
            sort_order_id=_sort_order_id(metadata, order),
            file_format=(file_format or merged.get(DEFAULT_FORMAT, "parquet")).lower(),
            properties=merged,
            target_file_bytes=_bytes(merged) if target_file_bytes is None else target_file_bytes,
            trusted=_naming_code({**(catalog_properties or {}), **(properties or {})}),
        )

    def __post_init__(self) -> None:
        if self.target_file_bytes < 1:
            raise ConfigurationError(f"the target file size is {self.target_file_bytes} bytes; it must be positive")


def _naming_code(properties: Mapping[str, Any]) -> dict[str, str]:
    # A configuration is sent to other processes, where secrets of the catalog have no business.
    return {key: value for key, value in properties.items() if names_code(key) and isinstance(value, str)}


def _default_sort_order(metadata: TableMetadata, schema: Schema) -> SortOrder:
    """The table's order, unless its columns are gone: an order is advice, for which no row is refused."""
    for order in metadata.sort_orders:
        if order.order_id == metadata.default_sort_order_id and is_sortable(order, schema):
            return order
    return UNSORTED_SORT_ORDER


def _sort_order_id(metadata: TableMetadata, order: SortOrder) -> int | None:
    if order.is_unsorted:
        return None
    same = (known.order_id for known in metadata.sort_orders if known.fields == order.fields)
    return next(same, None)


def _bytes(properties: Mapping[str, str]) -> int:
    text = properties.get(_TARGET_BYTES, str(_DEFAULT_TARGET_BYTES))
    if not text.strip().isdecimal():
        message = f"property {_TARGET_BYTES!r} is {text!r}; it must be a whole number of bytes"
        raise ConfigurationError(message, property=_TARGET_BYTES)
    return int(text)
