"""The schemas of files, of which Lance makes Arrow's only together with everything else that it knows of a file.

The files of a table are much alike, so what was worked out for one of them is kept for the others.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from formatkit.batches.arrow.file_schema import FileSchema, file_schema

__all__ = ["known_schema"]

_DESCRIPTION = 0
_SCHEMA_FIELD, _ROWS_FIELD = 0x0A, 0x10
_TABLES_AT_ONCE = 64
_KNOWN: dict[bytes, tuple[pa.Schema, FileSchema]] = {}


def known_schema(reader: Any, location: str) -> tuple[pa.Schema, FileSchema]:
    """The schema of an open file as Arrow's and as Iceberg's; `location` is for messages."""
    key = _description_of_columns(reader.read_global_buffer(_DESCRIPTION))
    if key not in _KNOWN:
        arrow = reader.metadata().schema
        if len(_KNOWN) >= _TABLES_AT_ONCE:
            _KNOWN.clear()
        _KNOWN[key] = arrow, file_schema(arrow, location)
    return _KNOWN[key]


def _description_of_columns(description: bytes) -> bytes:
    """A message of Protocol Buffers without the number of rows, which is its last field."""
    if not description or description[0] != _SCHEMA_FIELD:
        return description
    length = shift = 0
    for place, byte in enumerate(description[1:], start=2):
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            end = place + length
            return description[:end] if description[end : end + 1] == bytes((_ROWS_FIELD,)) else description
    return description
