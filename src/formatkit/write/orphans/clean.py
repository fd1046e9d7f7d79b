"""Finds the files of a table that nothing refers to, and deletes them if asked to.

A file is deleted only if all of this is known: a writer of Iceberg tables gives such names, it lies in a folder of the
table where such a writer puts it, no other table has files there, neither the table nor another one of the catalog
refers to a file of its name, and it is old enough. Everything else is kept, and reported with the reason.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.table import StaticTable, Table

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.io import current_runtime
from formatkit.io.failures import storage_failures
from formatkit.scan.sources import TableFiles
from formatkit.write.commit.outcome import catalog_failures
from formatkit.write.jobs import Attempt, Engine, LocalEngine, Progress, Steps, even_parts
from formatkit.write.orphans.folders import OwnFolders, is_inside, place
from formatkit.write.orphans.journal import Journal, new_journal
from formatkit.write.orphans.listing import StoredFile, StoredFolder, stored_folder
from formatkit.write.orphans.names import checksummed_name, is_data_name, is_metadata_name, is_table_metadata
from formatkit.write.orphans.neighbours import Neighbours, StrayMetadata
from formatkit.write.orphans.reachable import References, full_metadata

__all__ = ["OrphanReport", "clean_orphans"]

_MIN_AGE = timedelta(hours=24)
_ORPHAN = "no metadata refers to it"
_TOO_YOUNG = "it is too young"
_PIECES_PER_WORKER = 4
_MAX_FILES_OF_PIECE = 1_000
"""So that the journal does not fall far behind."""

_Found = tuple[StoredFolder, StoredFile]


@dataclass(frozen=True, kw_only=True)
class OrphanReport:
    """What was found.

    Attributes:
        orphans: The files to which nothing refers, which are the table's and old enough, by location.
        too_young: How many more there are that may belong to a commit which is still under way.
        searched: How many files were looked at.
        kept: Why each other file is kept to which the table does not refer, by location. Young ones are among them.
        blocked: Why a run that is no dry run would refuse to delete anything.
        deleted: How many of the orphans were deleted; none in a dry run.
        failures: Why the others were not, by location.
        journal: Where it is written down what was deleted; None if nothing was to be deleted.
    """

    orphans: tuple[StoredFile, ...]
    too_young: int
    searched: int
    kept: Mapping[str, str] = field(default_factory=dict)
    blocked: tuple[str, ...] = ()
    deleted: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    journal: str | None = None

    @property
    def size_bytes(self) -> int:
        """The size of all orphans."""
        return sum(file.size_bytes for file in self.orphans)


def clean_orphans(
    table: Table,
    *,
    older_than: timedelta | datetime = timedelta(days=3),
    dry_run: bool = True,
    location: str | None = None,
    force: bool = False,
    location_is_exclusive: bool = False,
    journal: str | os.PathLike[str] | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> OrphanReport:
    """Find files in the table's folders that no snapshot, metadata file or statistics refers to.

    Such files are left by processes that were killed, by engines that do not clean up, and by snapshots that were
    expired. What is not committed yet is protected by its age alone. Tables of other catalogs are noticed only if their
    metadata files are in this table's folders.

    Args:
        table: A table of a catalog.
        older_than: The least age of files that count, or the moment before which they must have been written. Should be
            longer than the longest write to the table, and than the longest pause of a streaming job between writing a
            file and committing it.
        dry_run: Whether to leave everything as it is.
        location: A folder of the table to look at instead of all: its location, `write.data.path`,
            `write.metadata.path`, or a folder inside.
        force: Whether files younger than 24 hours may count.
        location_is_exclusive: Says that no other table, of whatever catalog, has files in the table's folders. It is
            needed where the catalog cannot list its tables or one of them cannot be loaded, and to delete what commits
            have left that failed after their metadata file was written.
        journal: Where to write what is going to be deleted, before it is; a new file in the table's metadata folder if
            left out. On storage whose files cannot grow, what became of each file is written beside it when all is
            done.
        engine: Where files are deleted; in this process if left out. `formatkit.spark.SparkEngine(spark)` lets
            executors do it. What is an orphan is found out here.
        progress: Called with how many files were deleted, and how many there are to delete.

    Raises:
        ConfigurationError: An option cannot be used, or it is not known what other tables refer to.
        UnsupportedError: The table has no catalog, or its storage cannot list files.
        StorageError: The storage fails, or the journal cannot be written; nothing is deleted then.
    """
    if not dry_run and isinstance(table, StaticTable):
        raise UnsupportedError(
            "a metadata file does not tell whether the table has gone on since; load the table from its catalog to "
            "delete what it does not refer to"
        )
    before = _moment_before(older_than, force=force)
    search = _Search(table, location, exclusive=location_is_exclusive)
    search.ask()
    orphans, kept = search.judge(before)
    options = {
        "older_than": str(older_than),
        "location": location,
        "force": force,
        "location_is_exclusive": location_is_exclusive,
    }
    outcome: dict[str, Any] = {}
    if not dry_run:
        search.check_unblocked()
        if orphans:
            # What was committed while manifests were read counts as well.
            search.ask()
            search.check_unblocked()
            orphans, kept = search.judge(before)
        outcome = _delete(search, orphans, journal, options, engine or LocalEngine(), progress)
    return OrphanReport(
        orphans=tuple(file for _, file in orphans),
        too_young=sum(reason == _TOO_YOUNG for reason in kept.values()),
        searched=len(search.found),
        kept=kept,
        blocked=search.blocked,
        **outcome,
    )


def _moment_before(older_than: timedelta | datetime, *, force: bool) -> datetime:
    now = datetime.now(UTC)
    if isinstance(older_than, timedelta):
        if older_than < timedelta(0):
            raise ConfigurationError(f"older_than must not be negative, but is {older_than}")
        before = now - older_than
    elif older_than.tzinfo is None:
        raise ConfigurationError("older_than needs a time zone: datetime.now(UTC) - timedelta(days=3)")
    else:
        before = older_than
    # The clock has moved since the caller looked at it.
    if before > now - _MIN_AGE + timedelta(minutes=1) and not force:
        raise ConfigurationError(
            f"older_than is {older_than}: files younger than 24 hours may belong to a commit that is under way; pass "
            "force=True (--force) if nobody writes to the table"
        )
    return before


class _Search:
    """The files in the folders of a table, and what is known about them."""

    def __init__(self, table: Table, location: str | None, *, exclusive: bool) -> None:
        self.table = table
        self._exclusive = exclusive
        self._own = References()
        self._load()
        self._scope = None if location is None else self.folders.scope(location)
        # All of them, because metadata of other tables anywhere counts.
        self._listed: list[_Found] = []
        for root in self.folders.to_list():
            folder = stored_folder(root, table.io)
            with storage_failures(root, "list"):
                self._listed.extend((folder, file) for file in folder.files())
        self.found = [found for found in self._listed if self._scope is None or is_inside(_place(*found), self._scope)]
        roots = {folder.place for folder, _ in self._listed}
        self._neighbours = Neighbours(roots, (_name(file) for _, file in self.found))
        self._strays_read: set[str] = set()

    def _load(self) -> None:
        if not isinstance(self.table, StaticTable):
            with catalog_failures(self.table, "nothing more is deleted"):
                self.table.refresh()
        self.metadata = full_metadata(self.table)
        self.folders = OwnFolders(self.metadata)

    @property
    def blocked(self) -> tuple[str, ...]:
        return () if self._exclusive else tuple(self._neighbours.unknown)

    def check_unblocked(self) -> None:
        if self.blocked:
            raise ConfigurationError(
                f"nothing was deleted: {'; '.join(self.blocked)}. Pass location_is_exclusive=True (--exclusive) if no "
                "other table has files in the folders of this one"
            )

    def ask(self) -> None:
        """Find out what this table and others refer to by now."""
        self._load()
        table = self.table
        self._own.add_locations([table.metadata_location])
        lists = [snapshot.manifest_list for snapshot in table.metadata.snapshots]
        self._own.add(self.metadata, table.io, more_lists=lists)
        self._check_listing()
        self._neighbours.ask_catalog(table.catalog, tuple(table.name()))
        strays = StrayMetadata(self.metadata, self._own, table.io, exclusive=self._exclusive)
        for folder, file in self._listed:
            name = _name(file)
            if is_table_metadata(name) and not file.obstacle and name not in self._own:
                self._read_stray(folder, file, strays)

    def _read_stray(self, folder: StoredFolder, file: StoredFile, strays: StrayMetadata) -> None:
        if file.location in self._strays_read:
            return
        try:
            content = folder.read(file)
        except FileNotFoundError:
            return
        except Exception as error:  # noqa: BLE001 - file systems agree on no exceptions
            self._neighbours.unknown.append(f"{file.location} cannot be read ({type(error).__name__}: {error})")
            return
        strays.add_to(self._neighbours, _place(folder, file), content)
        self._strays_read.add(file.location)

    def _check_listing(self) -> None:
        """If not even the table's own files are recognised, no others can be told from them."""
        if not self.found or any(_name(file) in self._own for _, file in self.found):
            return
        roots = {folder.place for folder, _ in self.found} if self._scope is None else {self._scope}
        for root in roots:
            if any(is_inside(place(each), root) for each in self._own.locations):
                raise ConfigurationError(
                    f"none of the files that {'.'.join(self.table.name())} has under {root} was found there, so it "
                    "cannot be told which files are its own"
                )

    def judge(self, before: datetime) -> tuple[list[_Found], dict[str, str]]:
        """The orphans, and why other files are kept to which the table does not refer."""
        orphans: dict[str, _Found] = {}
        kept: dict[str, str] = {}
        checksums: list[tuple[str, _Found]] = []
        for folder, file in self.found:
            spelled, name = _place(folder, file), _name(file)
            checked = checksummed_name(name)
            if name in self._own or (checked is not None and checked in self._own):
                continue
            reason = self._reason_to_keep(spelled, checked or name, file, before)
            if reason is not None:
                kept[file.location] = reason
            elif checked is not None:
                checksums.append((spelled[: -len(name)] + checked, (folder, file)))
            else:
                orphans[spelled] = (folder, file)
        present = {_place(*found) for found in self.found}
        for checked, found in checksums:
            if checked in orphans or checked not in present:
                orphans[f"{checked}.crc"] = found
            else:
                kept[found[1].location] = "it is the checksum of a file that is kept"
        return sorted(orphans.values(), key=lambda found: found[1].location), kept

    def _reason_to_keep(self, spelled: str, name: str, file: StoredFile, before: datetime) -> str | None:
        folder = spelled.rpartition("/")[0]
        data, metadata = is_data_name(name), is_metadata_name(name)
        reason = file.obstacle or None
        if reason is None and not data and not metadata:
            reason = "its name is not one that a writer of Iceberg tables gives"
        if reason is None:
            reason = self._neighbours.reason_to_keep(spelled, name)
        if reason is None and not (
            (data and self.folders.is_data_folder(folder, name))
            or (metadata and self.folders.is_metadata_folder(folder))
        ):
            reason = "its folder is not one where the table's writers put such files"
        return reason or _reason_of_age(file, before)


def _reason_of_age(file: StoredFile, before: datetime) -> str | None:
    if file.modified is None:
        return "the storage does not say when it was written"
    if file.modified > datetime.now(UTC):
        return "it was written in the future, as the storage's clock says"
    return None if file.modified < before else _TOO_YOUNG


def _place(folder: StoredFolder, file: StoredFile) -> str:
    return f"{folder.place}/{file.path}"


def _name(file: StoredFile) -> str:
    return file.path.rpartition("/")[2]


def _delete(
    search: _Search,
    orphans: list[_Found],
    journal: str | os.PathLike[str] | None,
    options: dict[str, Any],
    engine: Engine,
    progress: Progress | None,
) -> dict[str, Any]:
    """Write the journal and delete files; returns what the report says about it."""
    if not orphans:
        return {}
    now = datetime.now(UTC)
    where = journal or f"{search.folders.metadata_location}/orphans-{now:%Y%m%dT%H%M%S}-{uuid.uuid4()}.jsonl"
    table = search.table
    plan = {
        "kind": "plan",
        "table": list(table.name()),
        "table_uuid": search.metadata.get("table-uuid"),
        "metadata_location": table.metadata_location,
        "snapshot_id": search.metadata.get("current-snapshot-id"),
        "time": now.isoformat(),
        "options": options,
        "files": len(orphans),
    }
    lines = (
        {
            "kind": "file",
            "location": file.location,
            "size_bytes": file.size_bytes,
            "modified": str(file.modified),
            "reason": _ORPHAN,
        }
        for _, file in orphans
    )
    with closing(new_journal(where, [plan, *lines], table.io)) as written:
        failures = _delete_all(orphans, table.io, written, engine, Steps(progress, len(orphans)))
    return {"deleted": len(orphans) - len(failures), "failures": failures, "journal": written.location}


def _delete_all(orphans: list[_Found], io: FileIO, journal: Journal, engine: Engine, steps: Steps) -> dict[str, str]:
    """Delete files; returns why some could not be."""
    failures = {}
    things = [(folder.location, file) for folder, file in orphans]
    count = max(_PIECES_PER_WORKER * engine.parallelism, -(-len(things) // _MAX_FILES_OF_PIECE))
    pieces = even_parts(things, lambda _: 1, count)
    with closing(engine.run(pieces, DeleteFiles(TableFiles(io)), steps.tell)) as results:
        for piece, problems in results:
            for _, file in pieces[piece]:
                problem = problems.get(file.location)
                journal.note({"kind": "outcome", "location": file.location, "problem": problem})
                if problem:
                    failures[file.location] = problem
            steps.finish(piece, len(pieces[piece]))
    return failures


@dataclass(frozen=True)
class DeleteFiles:
    """Deletes files that were listed, given with the location of the folder that was listed. Can be pickled.

    Attributes:
        storage: The table's `FileIO`.
    """

    storage: TableFiles

    def __call__(self, work: Sequence[tuple[str, StoredFile]], attempt: Attempt) -> dict[str, str]:
        """Returns why some could not be deleted, by location. Those that are gone already are no problem."""
        runtime = current_runtime()
        folders = {location: stored_folder(location, self.storage.io) for location, _ in work}
        calls = [runtime.submit(partial(_delete_one, folders[location], file)) for location, file in work]
        problems = {}
        try:
            for done, ((_, file), call) in enumerate(zip(work, calls, strict=True)):
                problem = call.result()
                attempt.tell(done + 1)
                if problem:
                    problems[file.location] = problem
        finally:
            for call in calls:
                call.cancel()
        return problems


def _delete_one(folder: StoredFolder, file: StoredFile) -> str | None:
    try:
        return folder.delete(file)
    except FileNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001 - one file that cannot be deleted must not keep the others
        return f"{type(error).__name__}: {error}"
