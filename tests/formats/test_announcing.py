"""Arrow, Vortex and Lance files say what they will read, and read it once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from formatkit.contract import FormatPlugin, OpenOptions, ReadOptions, Split
from formatkit.contract.format import SaysWhatItOpensWith
from formatkit.formats.arrow.plugin import ArrowFormat
from formatkit.formats.lance.plugin import LanceFormat
from formatkit.formats.vortex.plugin import VortexFormat
from support.announced import AnnouncedSource
from support.plugin_files import write_table

ROWS = 150_000
SCHEMA = Schema(NestedField(1, "n", LongType()), NestedField(2, "x", DoubleType()), NestedField(3, "t", StringType()))
Plugin = FormatPlugin[pa.RecordBatch]


def table() -> pa.Table:
    rng = np.random.default_rng(5)
    texts = pa.array([f"text {number}" for number in rng.integers(0, 1000, ROWS)])
    return pa.table([pa.array(rng.integers(0, 2**60, ROWS)), pa.array(rng.random(ROWS)), texts], names=["n", "x", "t"])


@pytest.mark.parametrize(
    ("plugin", "properties"),
    [
        (ArrowFormat(), {}),
        (ArrowFormat(), {"write.arrow.layout": "stream"}),
        (VortexFormat(), {}),
        (LanceFormat(), {}),
    ],
    ids=["arrow file", "arrow stream", "vortex", "lance"],
)
def test_a_whole_file_is_announced_and_read_once(plugin: Plugin, properties: dict[str, str]) -> None:
    source = AnnouncedSource(write_table(plugin, SCHEMA, table(), properties=properties))
    reader = plugin.reader()
    assert isinstance(reader, SaysWhatItOpensWith)
    source.prefetch(reader.opening_ranges(source.size()))
    file = reader.open(source, OpenOptions())
    result = file.read(ReadOptions(projection=file.schema))
    with result.batches as batches:
        assert sum(batch.num_rows for batch in batches) == ROWS
    assert source.not_announced == []
    # What opening looked at is small, and blocks with checksums may end in the midst of it.
    assert source.times_read.sum() < source.size() + 256 * 1024
    file.close()


def test_a_split_of_an_arrow_file_announces_its_own_record_batches() -> None:
    plugin = ArrowFormat()
    source = AnnouncedSource(write_table(plugin, SCHEMA, table()))
    file = plugin.reader().open(source, OpenOptions())
    source.forget()
    half = source.size() // 2
    with file.read(ReadOptions(projection=file.schema, split=Split(0, half))).batches as batches:
        assert 0 < sum(batch.num_rows for batch in batches) < ROWS
    assert source.not_announced == []
    assert max(part.offset for part in source.announced if part.length > 65536) < half
