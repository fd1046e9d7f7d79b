"""The columns of equality deletes, which the table may have dropped since."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType, StructType

from formatkit.errors import InvalidTableError
from formatkit.kernel.names import Path, path_to
from formatkit.kernel.projection import widen

__all__ = ["KeySchemas"]


class KeySchemas:
    """Finds the columns of equality deletes by their ids.

    Args:
        schemas: Where fields are looked for, first to last: the schema that is read, then others of the table.
    """

    def __init__(self, schemas: Sequence[Schema]) -> None:
        self._schemas = schemas
        self._known: dict[tuple[int, ...], Schema] = {}

    def of(self, field_ids: tuple[int, ...]) -> Schema:
        """A schema of these columns and the structs that they are in. All may be null, in key rows as in old files.

        Raises:
            InvalidTableError: The table never had such a column, or rows cannot be told by it.
        """
        if field_ids not in self._known:
            fields = widen((), [self._path(field_id) for field_id in field_ids])
            self._known[field_ids] = Schema(*fields)
        return self._known[field_ids]

    def _path(self, field_id: int) -> Path:
        for schema in self._schemas:
            path = path_to(schema, field_id)
            if path is not None:
                return self._checked(path)
        message = f"equality deletes compare field {field_id}, which none of the table's schemas has"
        raise InvalidTableError(message, field_id=field_id)

    @staticmethod
    def _checked(path: Path) -> Path:
        if not all(isinstance(parent.field_type, StructType) for parent in path[:-1]) or not isinstance(
            path[-1].field_type, PrimitiveType
        ):
            message = (
                f"equality deletes compare {path[-1].name!r} (field {path[-1].field_id}); only columns of plain "
                "values that are not inside lists or maps can be compared"
            )
            raise InvalidTableError(message, field_id=path[-1].field_id)
        return tuple(_optional(field) for field in path)


def _optional(field: NestedField) -> NestedField:
    return field.model_copy(update={"required": False})
