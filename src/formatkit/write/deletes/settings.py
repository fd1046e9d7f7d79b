"""Which properties of a table are for its delete files."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["delete_format", "delete_properties"]

_PREFIX = "write.delete."


def delete_format(properties: Mapping[str, str]) -> str:
    """The format of a table's delete files: that of its data files, unless the properties name another."""
    default = properties.get("write.format.default", "parquet")
    return properties.get(f"{_PREFIX}format.default", default).lower()


def delete_properties(properties: Mapping[str, str], file_format: str) -> dict[str, str]:
    """The properties with `write.delete.parquet.…` in the place of `write.parquet.…`, and so for other formats."""
    prefix = f"{_PREFIX}{file_format}."
    own = {key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)}
    return {**properties, **{f"write.{file_format}.{name}": value for name, value in own.items()}}
