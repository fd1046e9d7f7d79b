"""Which metrics a table wants for which column: the `write.metadata.metrics.*` properties."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.contract import MetricsKind, MetricsMode
from formatkit.contract.fields import child_fields
from formatkit.errors import ConfigurationError

__all__ = ["metrics_modes"]

_DEFAULT = "write.metadata.metrics.default"
_COLUMN = "write.metadata.metrics.column."
_LIMIT = "write.metadata.metrics.max-inferred-column-defaults"
_NONE = MetricsMode(MetricsKind.NONE)
_TRUNCATE = MetricsMode(MetricsKind.TRUNCATE, 16)


def metrics_modes(
    schema: Schema, properties: Mapping[str, str], sorted_ids: Collection[int] = frozenset()
) -> dict[int, MetricsMode]:
    """The mode of each leaf column, by id.

    In this order, the later ones winning: the default, which without being set covers the first 100 columns only;
    truncate(16) at least for columns that the table is sorted by; what is set for the column by its dotted name.

    Raises:
        ConfigurationError: A property has a value that is no mode, or a limit that is no number.
    """
    leaves = list(_leaves(schema.fields))
    default = _mode(properties, _DEFAULT, _TRUNCATE)
    limit = len(leaves) if _DEFAULT in properties else _limit(properties)
    modes: dict[int, MetricsMode] = {}
    for rank, leaf in enumerate(leaves):
        mode = default if rank < limit else _NONE
        if leaf.field_id in sorted_ids and not mode.bounds:
            mode = _TRUNCATE
        name = schema.find_column_name(leaf.field_id)
        modes[leaf.field_id] = _mode(properties, f"{_COLUMN}{name}", mode)
    return modes


def _leaves(fields: Iterable[NestedField]) -> Iterator[NestedField]:
    """The leaf columns, those of a struct before those below it: a limit should reach the plain columns first."""
    nested = []
    for field in fields:
        if child_fields(field.field_type):
            nested.append(field)
        else:
            yield field
    for field in nested:
        yield from _leaves(child_fields(field.field_type))


def _mode(properties: Mapping[str, str], key: str, default: MetricsMode) -> MetricsMode:
    if key not in properties:
        return default
    try:
        return MetricsMode.parse(properties[key])
    except ConfigurationError as error:
        raise ConfigurationError(f"property {key!r}: {error}", property=key) from error


def _limit(properties: Mapping[str, str]) -> int:
    text = properties.get(_LIMIT, "100")
    if not text.strip().isdecimal():
        raise ConfigurationError(f"property {_LIMIT!r} is {text!r}; it must be a whole number", property=_LIMIT)
    return int(text)
