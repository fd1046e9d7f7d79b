"""The table that a write is for: given, found by its name in a catalog, or made for the rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, Transform, parse_transform
from pyspark.sql.types import StructType

from formatkit.errors import ConfigurationError
from formatkit.kernel.names import find_column
from formatkit.spark.catalogs import Catalogs, catalog_of
from formatkit.spark.writing.schema import iceberg_schema
from formatkit.write.commit import enable_version3

__all__ = ["NewTable", "opened_table", "partition_spec", "sort_order"]

_CALL = re.compile(r"(\w+)\((?:\s*(\d+)\s*,)?\s*([^(),]+?)\s*(?:,\s*(\d+)\s*)?\)")
_PLURALS = {"years": "year", "months": "month", "days": "day", "hours": "hour"}
_FIRST_PARTITION_ID = 1000


class NewTable:
    """What a table that is missing is made of.

    Args:
        columns: The columns of the rows.
        partition_by: Columns and transforms of them: ``"region"``, ``"days(at)"``, ``"bucket(16, id)"``.
        sort_by: Columns, ``"id desc"`` for descending.
        properties: Of the table.
        case_sensitive: Whether case matters in `partition_by` and `sort_by`.
    """

    def __init__(
        self,
        columns: StructType,
        *,
        partition_by: str | Sequence[str] = (),
        sort_by: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        case_sensitive: bool = False,
    ) -> None:
        self._schema = iceberg_schema(columns)
        self._spec = partition_spec(self._schema, partition_by, case_sensitive=case_sensitive)
        self._order = sort_order(self._schema, sort_by, case_sensitive=case_sensitive)
        self._properties = dict(properties or {})

    def create(self, catalog: Catalog, identifier: str) -> Table:
        """Make the table; if somebody else was faster, it is theirs.

        Raises:
            ConfigurationError: The catalog has no such namespace.
        """
        if self._properties.get("format-version") == "3":
            enable_version3()
        try:
            return catalog.create_table(
                identifier,
                self._schema,
                partition_spec=self._spec,
                sort_order=self._order,
                properties=self._properties,
            )
        except TableAlreadyExistsError:
            return catalog.load_table(identifier)
        except NoSuchNamespaceError as error:
            raise ConfigurationError(
                f"{identifier!r} cannot be created: {error}; create the namespace first"
            ) from error


@contextmanager
def opened_table(
    table: Table | str,
    catalogs: Catalogs,
    *,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
    new: NewTable | None = None,
) -> Iterator[Table]:
    """The table itself, or the one of this name, whose catalog is closed afterwards.

    Args:
        table: A table of a catalog, or the name of one.
        catalogs: Settings of catalogs that are known beside pyiceberg's own configuration.
        catalog: The catalog's name, if the table's name does not begin with it.
        catalog_properties: Its properties, on top of the others.
        new: What to make if there is no such table.

    Raises:
        ConfigurationError: There is no such table or catalog, or a metadata file was named.
    """
    if isinstance(table, Table):
        yield table
        return
    if "/" in table or "\\" in table:
        message = f"{table!r} is a location; rows are written to a table of a catalog, named like db.table"
        raise ConfigurationError(message, location=table)
    name, found, identifier = catalog_of(table, catalogs, catalog=catalog, properties=catalog_properties or {})
    with closing(found):
        try:
            loaded = found.load_table(identifier)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            if new is None:
                message = (
                    f"catalog {name!r} has no table {identifier!r}: {error}; create it, or let create=True of "
                    "formatkit.spark.write do so"
                )
                raise ConfigurationError(message, catalog=name, table=identifier) from error
            loaded = new.create(found, identifier)
        yield loaded


def partition_spec(schema: Schema, by: str | Sequence[str], *, case_sensitive: bool) -> PartitionSpec:
    """A partition spec in words: ``("region", "days(at)", "bucket(16, id)", "truncate(4, name)")``.

    Raises:
        ConfigurationError: One of them cannot be understood, or is not defined for the column.
        ColumnNotFoundError: There is no such column.
    """
    fields = []
    for position, text in enumerate([by] if isinstance(by, str) else by):
        transform, name = _transform(text)
        path = find_column(schema, name, case_sensitive=case_sensitive)
        source = path[-1]
        if not transform.can_transform(source.field_type):
            raise ConfigurationError(f"partition_by {text!r}: {transform} is not defined for {source.field_type}")
        dotted = "_".join(each.name for each in path)
        title = dotted if isinstance(transform, IdentityTransform) else f"{dotted}_{str(transform).partition('[')[0]}"
        fields.append(PartitionField(source.field_id, _FIRST_PARTITION_ID + position, transform, title))
    return PartitionSpec(*fields)


def _transform(text: str) -> tuple[Transform[object, object], str]:
    call = _CALL.fullmatch(text.strip())
    if call is None:
        return IdentityTransform(), text.strip()
    word, before, name, behind = call.groups()
    word = _PLURALS.get(word.lower(), word.lower())
    width = before or behind
    try:
        return parse_transform(f"{word}[{width}]" if width else word), name.strip("`")
    except ValueError as error:
        raise ConfigurationError(f"partition_by {text!r} cannot be understood: {error}") from error


def sort_order(schema: Schema, by: str | Sequence[str], *, case_sensitive: bool) -> SortOrder:
    """A sort order in words: ``("region", "at desc")``; nulls are first where it ascends, as in Spark."""
    fields = []
    for text in [by] if isinstance(by, str) else by:
        name = text.removesuffix(" desc").removesuffix(" asc")
        descends = text.endswith(" desc")
        fields.append(
            SortField(
                source_id=find_column(schema, name.strip(), case_sensitive=case_sensitive)[-1].field_id,
                transform=IdentityTransform(),
                direction=SortDirection.DESC if descends else SortDirection.ASC,
                null_order=NullOrder.NULLS_LAST if descends else NullOrder.NULLS_FIRST,
            )
        )
    return SortOrder(*fields) if fields else UNSORTED_SORT_ORDER
