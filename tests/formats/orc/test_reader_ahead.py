"""What a read needs of a file is announced before it is needed, and fetched once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.orc import ORCFile
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema

from formatkit.contract import OpenOptions, ReadOptions
from formatkit.formats.orc.reader import OrcReader
from formatkit.io import LocalSource
from formatkit.kernel import bind
from support.announced import AnnouncedSource
from support.orc_files import columns_named, foreign

ROWS = 90_000


def table() -> pa.Table:
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {f"c{i}": rng.random(ROWS) for i in range(4)}
    return pa.table({"n": np.arange(ROWS), "t": [f"text {i % 7}" for i in range(ROWS)], **columns})


LARGE = foreign(table(), stripe_size=1 << 20, batch_size=30_000, compression="uncompressed")
SMALL = foreign(table().slice(0, 9000), stripe_size=1, batch_size=3000, compression="zstd")
FILTERED = "c0 > 0.5"


@pytest.mark.parametrize("data", [LARGE, SMALL], ids=["large stripes", "small stripes"])
@pytest.mark.parametrize("names", [["n", "t", "c0", "c1", "c2", "c3"], ["c3", "n"], ["t"]], ids=str)
@pytest.mark.parametrize("where", [None, FILTERED], ids=["all rows", "filtered"])
def test_every_byte_is_announced_and_fetched_once(data: bytes, names: list[str], where: str | None) -> None:
    source = AnnouncedSource(data)
    source.prefetch(OrcReader().opening_ranges(len(data)))
    file = OrcReader().open(source, OpenOptions())
    assert source.not_announced == []
    source.forget()
    wanted = columns_named(file, *names)
    if where is not None:
        wanted = Schema(*{field.name: field for field in (*wanted.fields, *columns_named(file, "c0").fields)}.values())
    predicate = AlwaysTrue() if where is None else bind(wanted, where)
    with file.read(ReadOptions(projection=wanted, predicate=predicate)).batches as batches:
        assert source.announced
        assert sum(batch.num_rows for batch in batches) > 0
    assert source.not_announced == []
    assert source.times_read.max() == 1


def test_all_stripes_are_announced_at_once_if_all_columns_are_wanted() -> None:
    source = AnnouncedSource(LARGE)
    file = OrcReader().open(source, OpenOptions())
    source.forget()
    file.read(ReadOptions(projection=file.schema))
    assert source.reads == []
    assert sum(part.length for part in source.announced) > 0.9 * len(LARGE)


def test_the_streams_of_later_stripes_are_announced_while_earlier_ones_are_decoded() -> None:
    source = AnnouncedSource(LARGE)
    file = OrcReader().open(source, OpenOptions())
    stripes = file.describe()["stripes"]
    assert stripes == 3
    result = file.read(ReadOptions(projection=columns_named(file, "c1")))
    # The footers of all stripes, and a stream of the first one.
    assert len(source.announced) == stripes + 1
    next(result.batches)
    assert len(source.announced) == stripes + 3
    result.batches.close()


def test_a_filter_that_matches_nothing_announces_nothing() -> None:
    source = AnnouncedSource(LARGE)
    file = OrcReader().open(source, OpenOptions())
    predicate = bind(file.schema, "n < 0")
    assert list(file.read(ReadOptions(projection=file.schema, predicate=predicate)).batches) == []
    assert source.announced == []
    assert source.times_read.sum() < 0.02 * len(LARGE)


@pytest.mark.parametrize("data", [LARGE, SMALL], ids=["large stripes", "small stripes"])
def test_local_files_are_read_as_well_by_pyarrow_itself(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(data)
    right = ORCFile(str(path)).read()
    for names in (right.column_names, ["c3", "n"], ["t", "c0"]):
        source = LocalSource(path)
        file = OrcReader().open(source, OpenOptions())
        projection = Schema(*(file.schema.find_field(name) for name in names))
        with file.read(ReadOptions(projection=projection)).batches as batches:
            assert pa.Table.from_batches(batches).equals(right.select(names))
        source.close()
