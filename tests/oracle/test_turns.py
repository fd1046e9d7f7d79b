"""formatkit and Java write one table in turns; after each turn both read what a model in memory says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

import formatkit
from formatkit.tck.naive import Row
from formatkit.write.operations import Mode
from support.oracle.comparing import FORMATS
from support.oracle.java_table import equality
from support.oracle.servant import Servant
from support.oracle.shared_table import SharedTable

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "code", IntegerType()),
    identifier_field_ids=[1],
)
KEY = Schema(SCHEMA.find_field("name"), SCHEMA.find_field("code"))
PARTITIONS = {"whole": [], "by code": [(3, "identity")], "by bucket": [(1, "bucket[2]")]}
# A turn costs some tenths of a second, most of them in other processes, which is why there are few in short runs.
assert settings.default is not None
HISTORIES = max(1, settings.default.max_examples // 25)


@dataclass
class Game:
    """A table, and the rows that it must have by their ids."""

    data: st.DataObject
    shared: SharedTable
    partitions: str
    version: int
    rows: dict[int, Row] = field(default_factory=dict)
    issued: int = 0

    @property
    def table(self) -> Table:
        return self.shared.table

    def file_format(self) -> str:
        return self.data.draw(st.sampled_from(FORMATS), "format")

    def mode(self) -> Mode:
        modes: list[Mode] = ["merge-on-read", "copy-on-write"]
        return self.data.draw(st.sampled_from(modes), "mode")

    def fresh(self) -> list[Row]:
        """New rows, with ids that no row had before."""
        contents = st.tuples(st.sampled_from([None, "a", "b"]), st.integers(0, 1) | st.none())
        drawn = self.data.draw(st.lists(contents, min_size=1, max_size=6), "contents")
        rows = [{1: self.issued + number, 2: name, 3: code} for number, (name, code) in enumerate(drawn)]
        self.issued += len(rows)
        return rows

    def some(self) -> set[int]:
        """The ids of some rows of the table."""
        return self.data.draw(st.sets(st.sampled_from(sorted(self.rows)), min_size=1, max_size=4), "ids")

    def put(self, rows: list[Row]) -> None:
        self.rows |= {row[1]: row for row in rows}

    def drop(self, ids: set[int]) -> None:
        self.rows = {key: row for key, row in self.rows.items() if key not in ids}


def any_of(ids: set[int]) -> str:
    return " or ".join(f"id = {number}" for number in sorted(ids))


def append_here(game: Game) -> None:
    rows = game.fresh()
    formatkit.append(game.table, game.shared.arrow(rows), game.file_format())
    game.put(rows)


def append_by_java(game: Game) -> None:
    rows = game.fresh()
    java = game.shared.by_java()
    java.append(rows, game.file_format())
    game.shared.accept(java)
    game.put(rows)


def delete_here(game: Game) -> None:
    ids = game.some()
    formatkit.delete(game.table, any_of(ids), game.mode(), file_format=game.file_format())
    game.drop(ids)


def delete_by_java(game: Game) -> None:
    ids = game.some()
    positions = game.shared.positions(any_of(ids))
    assert len(positions) == len(ids)
    java = game.shared.by_java()
    if game.version == 2:
        java.row_delta(game.file_format(), positions=positions)
    else:
        java.row_delta(vectors=positions)
    game.shared.accept(java)
    game.drop(ids)


def delete_equal(game: Game) -> None:
    """Rows that are equal to one of the table, nulls included; in its partition, if there are partitions."""
    example = game.rows[min(game.some())]
    key = {2: example[2], 3: example[3]}
    file_format = game.file_format()
    if game.data.draw(st.booleans(), "by Java"):
        java = game.shared.by_java()
        ((location, _),) = game.shared.positions(any_of({example[1]}))
        java.row_delta(file_format, equality=[equality(KEY, [key], [2, 3], location)])
        game.shared.accept(java)
    else:
        partition = Record(example[3]) if game.partitions == "by code" else Record()
        game.shared.delete_equal(KEY, [key], file_format, partition)
    game.drop({row[1] for row in game.rows.values() if (row[2], row[3]) == (example[2], example[3])})


def upsert_here(game: Game) -> None:
    changed = [game.rows[number] | {2: "new"} for number in game.some()] + game.fresh()
    formatkit.upsert(game.table, game.shared.arrow(changed), mode=game.mode(), file_format=game.file_format())
    game.put(changed)


def overwrite_here(game: Game) -> None:
    ids, rows = game.some(), game.fresh()
    formatkit.overwrite(game.table, game.shared.arrow(rows), any_of(ids), game.file_format())
    game.drop(ids)
    game.put(rows)


def rewrite_here(game: Game) -> None:
    formatkit.rewrite(game.table, game.file_format(), all_files=True)


def rewrite_manifests_by_java(game: Game) -> None:
    java = game.shared.by_java()
    java.replace("rewrite-manifests")
    game.shared.accept(java)


def upgrade_by_java(game: Game) -> None:
    java = game.shared.by_java()
    java.evolve(version=3)
    game.shared.accept(java)
    game.version = 3


TURNS: list[Callable[[Game], None]] = [
    append_here,
    append_by_java,
    delete_here,
    delete_by_java,
    delete_equal,
    upsert_here,
    overwrite_here,
    rewrite_here,
    rewrite_manifests_by_java,
    upgrade_by_java,
]


@settings(max_examples=HISTORIES)
@given(st.data())
def test_a_table_survives_writers_in_turns(java: Servant, rust: Servant, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from([2, 3]), "version")
    partitions = data.draw(st.sampled_from(sorted(PARTITIONS)), "partitions")
    with TemporaryDirectory() as folder:
        shared = SharedTable(java, Path(folder), SCHEMA, PARTITIONS[partitions], version=version, rust=rust)
        game = Game(data, shared, partitions, version)
        append_here(game)
        for turn in data.draw(st.lists(st.sampled_from(TURNS), min_size=3, max_size=8), "turns"):
            if turn is delete_equal and partitions == "by bucket":
                continue  # the rows of a bucket are not known to the model
            if not game.rows and turn not in (append_here, append_by_java):
                continue
            turn(game)
            shared.check(game.rows.values())
