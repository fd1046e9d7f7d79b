"""From a table and the options of a write to what executors are told."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.registry import default_registry
from formatkit.spark.writing.options import WriteOptions
from formatkit.write import TableWriteConfig

__all__ = ["write_config"]

T = TypeVar("T")
# Which formats have which properties of compression; others would ignore what was asked.
_COMPRESSION = {
    "codec": ("parquet", "orc", "avro", "arrow"),
    "level": ("parquet", "avro", "arrow"),
    "strategy": ("orc",),
}


def write_config(table: Table, options: WriteOptions, schema: Schema | None = None) -> TableWriteConfig:
    """How files of a table are written.

    Args:
        table: The table.
        options: What was asked for.
        schema: What to write, if it is not the table's current schema.

    Raises:
        ConfigurationError: The table has no such spec or sort order.
        FormatNotRegisteredError: The format is not installed here.
        UnsupportedError: The format has no such compression.
    """
    metadata = table.metadata
    orders = {order.order_id: order for order in metadata.sort_orders}
    order = None if options.sort_order_id is None else _of(orders, options.sort_order_id, "sort order")
    plain = TableWriteConfig.of(metadata, file_format=options.file_format, properties=options.properties)
    name = plain.file_format
    default_registry().plugin(name, pa.RecordBatch)  # better here than in a task
    config = TableWriteConfig.of(
        metadata,
        file_format=name,
        schema=schema,
        sort_order=order,
        properties={**options.properties, **_compression(name, options)},
        target_file_bytes=options.target_file_bytes,
        catalog_properties=table.catalog.properties,
    )
    if options.spec_id is not None:
        config = replace(config, spec=_of(metadata.specs(), options.spec_id, "partition spec"))
    return config


def _compression(file_format: str, options: WriteOptions) -> dict[str, str]:
    for word in options.compression:
        if file_format not in _COMPRESSION[word]:
            message = (
                f"{file_format} files have no compression-{word} that could be chosen; leave the option out, or set a "
                "property of the format (write.<format>.*)"
            )
            raise UnsupportedError(message)
    return {f"write.{file_format}.compression-{word}": text for word, text in options.compression.items()}


def _of(known: dict[int, T], wanted: int, what: str) -> T:
    if wanted not in known:
        raise ConfigurationError(f"the table has no {what} {wanted}; it has: {', '.join(map(str, sorted(known)))}")
    return known[wanted]
