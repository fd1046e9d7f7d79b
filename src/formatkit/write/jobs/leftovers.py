"""Files of a write that nobody reports: those of attempts that failed, were killed, or lost against another."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from contextlib import suppress

from pyiceberg.io import FileIO

from formatkit.errors import FormatkitError, without_secrets
from formatkit.write.config import TableWriteConfig
from formatkit.write.orphans.listing import stored_folder

__all__ = ["FILES_ID", "remove_after_failure", "remove_unreported", "try_to_remove_unreported"]

FILES_ID = "formatkit.files-id"
"""In the summary of a snapshot: the UUID that the names of its new files have in common."""

_log = logging.getLogger(__name__)
_SECONDS_BETWEEN_LISTINGS = (0.0, 1.0, 2.0)
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


def try_to_remove_unreported(
    config: TableWriteConfig, io: FileIO, write_id: str, reported: Collection[str], folders_of: Collection[str]
) -> None:
    """The same as `remove_unreported`; storage that cannot be listed is logged, as the write itself is done."""
    try:
        remove_unreported(config, io, write_id, reported, folders_of)
    except (FormatkitError, OSError) as error:
        text = without_secrets(f"{error}")
        _log.warning("files that attempts of write %s left stay where they are: %s", write_id, text)


def remove_after_failure(config: TableWriteConfig, io: FileIO, write_id: str, reported: Collection[str] = ()) -> None:
    """Look for unreported files in the whole data folder, several times.

    Spark fails a job with its first task, and lets others go on until it kills their workers
    (`spark.python.task.killTimeout`, two seconds), which may still leave a file.
    """
    for seconds in _SECONDS_BETWEEN_LISTINGS:
        time.sleep(seconds)
        try_to_remove_unreported(config, io, write_id, reported, ())


def _folders(config: TableWriteConfig, files: Collection[str]) -> Collection[str]:
    parents = {location.rpartition("/")[0] for location in files}
    if 0 < len(parents) <= _MAX_FOLDERS:
        return parents
    given = next((config.properties[key] for key in _DATA_PATHS if config.properties.get(key)), None)
    return [(given or f"{config.location.rstrip('/')}/data").rstrip("/")]
