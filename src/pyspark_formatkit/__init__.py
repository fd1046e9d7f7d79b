"""Where Spark looks for the data source ``formatkit``.

Spark imports every package whose name begins with ``pyspark_`` as soon as a session asks for any data source, so that
this one loads formatkit only when a table is read or written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from formatkit.spark.source import SourceTable

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Iceberg tables by ``spark.read.format("formatkit")``, ``df.write.format("formatkit")``, and as streams.

    Attributes:
        catalogs: Settings of catalogs by name, as `formatkit.spark.register` finds them in a session.
    """

    catalogs: ClassVar[dict[str, dict[str, str]]] = {}

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._found: SourceTable | None = None

    @classmethod
    def name(cls) -> str:
        return "formatkit"

    def schema(self) -> StructType:
        return self._table().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return self._table().reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from formatkit.spark.datasource.writer import sink_for

        return sink_for(self.options, self.catalogs, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from formatkit.spark.versions import check_stream_source

        check_stream_source()
        from formatkit.spark.streaming.reader import TableStreamReader

        return TableStreamReader(self._table(), schema, self.catalogs)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from formatkit.spark.versions import check_stream_sink

        check_stream_sink()
        from formatkit.spark.streaming.writer import TableStreamWriter

        return TableStreamWriter(self.options, self.catalogs, schema, overwrite)

    def _table(self) -> SourceTable:
        from formatkit.spark.source import find_table

        # Spark keeps this object, so that all queries of a DataFrame read the table as it was when it was loaded.
        if self._found is None:
            self._found = find_table(self.options, self.catalogs)
        return self._found
