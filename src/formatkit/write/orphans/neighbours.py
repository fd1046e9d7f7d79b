"""Other tables that may have files in a table's folders: those of its catalog, and those whose metadata is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from formatkit.errors import CorruptFileError
from formatkit.scan.metadata_files import load
from formatkit.write.orphans.folders import claimed_folders, is_inside
from formatkit.write.orphans.reachable import References, full_metadata, name_of, parse_metadata

__all__ = ["Neighbours", "StrayMetadata"]


class Neighbours:
    """What others claim of the files that were listed.

    Args:
        roots: The places of the folders that were listed.
        names: The names of the files.

    Attributes:
        unknown: What could not be found out, because of which nothing may be deleted.
    """

    def __init__(self, roots: Iterable[str], names: Iterable[str]) -> None:
        self.unknown: list[str] = []
        self._roots = tuple(roots)
        self._listed = frozenset(map(name_of, names))
        self._folders: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._read: dict[str, str] = {}

    def reason_to_keep(self, spelled: str, name: str) -> str | None:
        """Why a file may be another table's, by its place and name."""
        for folder, owner in self._folders.items():
            if is_inside(spelled, folder):
                return f"its folder is shared with {owner}"
        referrer = self._names.get(name_of(name))
        return None if referrer is None else f"{referrer} refers to a file of its name"

    def add_folders(self, folders: Iterable[str], owner: str) -> None:
        """Let all files in folders be somebody's."""
        for folder in folders:
            if any(folder == root or is_inside(folder, root) or is_inside(root, folder) for root in self._roots):
                self._folders[folder] = owner

    def add_references(self, references: References, owner: str) -> None:
        """Let all files of some names be somebody's."""
        self._names.update(dict.fromkeys(references.names & self._listed, owner))

    def ask_catalog(self, catalog: Catalog, own: Identifier) -> None:
        """Ask all other tables of a catalog; metadata that was read before is not read again."""
        try:
            identifiers = sorted(set(_all_tables(catalog)) - {own})
        except Exception as error:  # noqa: BLE001 - catalogs agree on no exceptions
            self.unknown.append(f"catalog {catalog.name} cannot list its tables ({_words(error)})")
            return
        for identifier in identifiers:
            owner = f"table {'.'.join(identifier)}"
            try:
                self._ask_table(catalog.load_table(identifier), owner)
            except NoSuchTableError:
                continue  # dropped since it was listed
            except Exception as error:  # noqa: BLE001 - whatever it is, what the table refers to is not known
                self.unknown.append(f"what {owner} refers to cannot be read ({_words(error)})")

    def _ask_table(self, table: Table, owner: str) -> None:
        if self._read.get(owner) == table.metadata_location:
            return
        metadata, references = full_metadata(table), References()
        self.add_folders(claimed_folders(metadata), owner)
        references.add_locations([table.metadata_location])
        lists = [snapshot.manifest_list for snapshot in table.metadata.snapshots]
        references.add(metadata, table.io, more_lists=lists)
        self.add_references(references, owner)
        self._read[owner] = table.metadata_location


class StrayMetadata:
    """Metadata files that are found in a table's folders, and that are not in its log.

    Args:
        metadata: The table's own metadata.
        own: What the table refers to.
        io: Its storage.
        exclusive: Whether the caller says that no other table has files there.
    """

    def __init__(self, metadata: dict[str, Any], own: References, io: FileIO, *, exclusive: bool) -> None:
        self._metadata = metadata
        self._own = own
        self._io = io
        self._exclusive = exclusive
        self._ancestors: set[str] | None = None

    def add_to(self, neighbours: Neighbours, spelled: str, content: bytes) -> None:
        """Let what a metadata file says count as a neighbour's.

        Metadata of this table that did not come before today's belongs to a commit that failed, or to another catalog
        in which the table was registered too. They look alike, so it counts unless the caller knows better.

        Args:
            neighbours: To whom to add it.
            spelled: The place of the file.
            content: What is in it.
        """
        owner = f"the table that has its metadata at {spelled}"
        try:
            found = parse_metadata(content, spelled)
        except CorruptFileError as error:
            neighbours.unknown.append(f"what {owner} refers to cannot be read ({_words(error)})")
            return
        if found is None:
            return
        references = References(beside=self._own)
        references.add_locations([spelled])
        try:
            if found.get("table-uuid") is None or found.get("table-uuid") != self._metadata.get("table-uuid"):
                folder = spelled.rpartition("/")[0]
                outer, _, last = folder.rpartition("/")
                neighbours.add_folders([outer if last == "metadata" else folder], owner)
                neighbours.add_folders(claimed_folders(found), owner)
            elif self._exclusive or self._is_ancestor(spelled):
                return
            references.add(found, self._io, missing_ok=True)
        except Exception as error:  # noqa: BLE001 - whatever it is, what the table refers to is not known
            neighbours.unknown.append(f"what {owner} refers to cannot be read ({_words(error)})")
        neighbours.add_references(references, owner)

    def _is_ancestor(self, spelled: str) -> bool:
        """Whether it is an earlier metadata file of the table, also one that its log has dropped."""
        if self._ancestors is None:
            self._ancestors = self._find_ancestors()
        return name_of(spelled) in self._ancestors

    def _find_ancestors(self) -> set[str]:
        names: set[str] = set()
        metadata: dict[str, Any] | None = self._metadata
        while metadata is not None:
            log = [entry["metadata-file"] for entry in metadata.get("metadata-log") or ()]
            new = {name_of(each) for each in log} - names
            names |= new
            try:
                metadata = parse_metadata(load(log[0], self._io), log[0]) if new else None
            except OSError:
                metadata = None
        return names


def _all_tables(catalog: Catalog) -> Iterator[Identifier]:
    waiting, seen = list(catalog.list_namespaces()), set()
    while waiting:
        namespace = tuple(waiting.pop())
        if namespace not in seen:
            seen.add(namespace)
            yield from map(tuple, catalog.list_tables(namespace))
            waiting.extend(catalog.list_namespaces(namespace))


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
