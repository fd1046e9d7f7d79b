"""Lets pyiceberg's catalogs write the metadata of tables of format version 3.

pyiceberg reads such metadata, applies updates to it and knows its fields, but refuses to write it. Catalogs that keep
the metadata in a file (all but REST catalogs) cannot commit then. The one method that refuses is replaced for the
whole process, which changes nothing that worked before.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadataCommonFields, TableMetadataV3

from formatkit.forks import fork_safe

__all__ = ["disable_version3", "enable_version3"]

_lock = fork_safe(threading.Lock())
_refuse = TableMetadataV3.model_dump_json


def enable_version3() -> None:
    """Make metadata of version 3 writable in this process. Commits to such tables do it by themselves."""
    with _lock:
        TableMetadataV3.model_dump_json = _dump  # type: ignore[method-assign]


def disable_version3() -> None:
    """Make pyiceberg refuse to write metadata of version 3 again."""
    with _lock:
        TableMetadataV3.model_dump_json = _refuse  # type: ignore[method-assign]


def _dump(
    self: TableMetadataV3, exclude_none: bool = True, exclude: Any = None, by_alias: bool = True, **options: Any
) -> str:
    _check_sequence_numbers(self)
    whole = self.model_copy(update={"next_row_id": _next_row_id(self)})
    return TableMetadataCommonFields.model_dump_json(
        whole, exclude_none=exclude_none, exclude=exclude, by_alias=by_alias, **options
    )


def _next_row_id(metadata: TableMetadataV3) -> int:
    """The specification requires it, but pyiceberg leaves it out of new tables."""
    if metadata.next_row_id is not None:
        return metadata.next_row_id
    return max(((each.first_row_id or 0) + (each.added_rows or 0) for each in metadata.snapshots), default=0)


def _check_sequence_numbers(metadata: TableMetadataV3) -> None:
    """Two writers of different branches get the same number, and pyiceberg notices it in version 2 only."""
    numbers = Counter(each.sequence_number for each in metadata.snapshots if each.sequence_number)
    twice = [number for number, count in numbers.items() if count > 1 and number == metadata.last_sequence_number]
    if twice:
        raise CommitFailedException(f"sequence number {twice[0]} was given to a snapshot of another branch meanwhile")
