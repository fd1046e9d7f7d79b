"""Where Spark looks for the data source ``formatkit``.

Spark imports every package whose name begins with ``pyspark_`` as soon as a session asks for any data source, so that
this one loads formatkit only when a table is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from formatkit.spark.source import SourceTable

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Iceberg tables by ``spark.read.format("formatkit")``.

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

    def _table(self) -> SourceTable:
        from formatkit.spark.source import find_table

        # Spark keeps this object, so that all queries of a DataFrame read the table as it was when it was loaded.
        if self._found is None:
            self._found = find_table(self.options, self.catalogs)
        return self._found
