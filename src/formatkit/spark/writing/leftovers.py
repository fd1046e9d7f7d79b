"""Files of a write that no task reports: those of attempts that failed, were killed, or lost against another."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress

from pyiceberg.io import FileIO

from formatkit.errors import without_secrets
from formatkit.write import TableWriteConfig
from formatkit.write.orphans.listing import stored_folder

__all__ = ["remove_unreported"]

_log = logging.getLogger(__name__)
_DATA_PATHS = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
_MAX_FOLDERS = 64


def remove_unreported(
    config: TableWriteConfig, io: FileIO, write_id: str, reported: Collection[str], folders_of: Collection[str]
) -> list[str]:
    """Delete the files whose names have the id of a write, but for those that are reported.

    Args:
        config: How the write named its files.
        io: The table's storage.
        write_id: The UUID in the names.
        reported: Files that stay.
        folders_of: Files in whose folders to look, if they are not in too many; the data folder of the table if empty.

    Returns:
        What was deleted. A file that cannot be deleted is logged and left.

    Raises:
        UnsupportedError: The `FileIO` cannot list files.
        StorageError: The storage cannot be listed.
    """
    mark = f"-{write_id}-"
    stay = {location.rpartition("/")[2] for location in reported}
    deleted = []
    for location in _folders(config, folders_of):
        folder = stored_folder(location, io)
        for file in list(folder.files()):
            name = file.path.rpartition("/")[2]
            if mark not in name or name in stay or file.obstacle:
                continue
            try:
                with suppress(FileNotFoundError):
                    if folder.delete(file) is None:
                        deleted.append(file.location)
            except Exception as error:  # noqa: BLE001 - storage fails in any way it likes
                _log.warning("cannot delete %s: %s", without_secrets(file.location), without_secrets(f"{error}"))
    return deleted


def _folders(config: TableWriteConfig, files: Collection[str]) -> Collection[str]:
    parents = {location.rpartition("/")[0] for location in files}
    if 0 < len(parents) <= _MAX_FOLDERS:
        return parents
    given = next((config.properties[key] for key in _DATA_PATHS if config.properties.get(key)), None)
    return [(given or f"{config.location.rstrip('/')}/data").rstrip("/")]
