"""No lie of a manifest that can be told from the metadata changes the answer of a scan, whatever the files' format."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hints.edits import tell_one
from hints.manifest_lies import AvroRecords, metrics_lies, summary_lies
from hints.truth import CHUNK, ROWS, SCHEMA, SETTINGS, filters, found, right, table
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import PrimitiveType

import formatkit
from formatkit.scan.manifests import read_manifest_list
from support.lying_io import LYING_IO, STORE, STORES

# 500 examples in CI for each format.
OFTEN = settings(SETTINGS, max_examples=5 * settings.default.max_examples)  # type: ignore[union-attr]
FORMATS = ("parquet", "orc", "avro", "arrow", "vortex", "lance")
NESTED = [SCHEMA.find_field(name) for name in ("point.x", "point.y")]
COLUMNS = [column for column in SCHEMA.fields if isinstance(column.field_type, PrimitiveType)]


@cache
def built(file_format: str) -> tuple[dict[str, bytes], str]:
    """The files of a table with a manifest for each chunk of rows, and where its metadata is."""
    name = f"hints-{file_format}"
    store: dict[str, bytes] = {}
    STORES[name] = store
    spec = PartitionSpec(
        PartitionField(6, 1000, IdentityTransform(), "flag"),
        PartitionField(1, 1001, TruncateTransform(16), "id_truncated"),
    )
    with InMemoryCatalog(name, warehouse=f"memory://{name}", **LYING_IO, **{STORE: name}) as catalog:
        catalog.create_namespace("db")
        properties = {"format-version": "2", "write.avro.compression-codec": "null"}
        made = catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties=properties)
        for start in range(0, len(ROWS), CHUNK):
            formatkit.append(made, table(ids=True).slice(start, CHUNK), file_format=file_format)
        return dict(store), made.metadata_location


@cache
def _metadata(file_format: str) -> tuple[str, dict[str, AvroRecords]]:
    """Where the manifest list is, and the records of it and of its manifests."""
    store, _ = built(file_format)
    STORES["hints"] = store
    opened = _loaded(file_format)
    listed = opened.current_snapshot().manifest_list
    manifests = [each.location for each in read_manifest_list(listed, opened.io)]
    return listed, {location: AvroRecords(store[location]) for location in (listed, *manifests)}


def _told(data: st.DataObject, file_format: str) -> dict[str, bytes]:
    """The files of a table in whose metadata there is a lie."""
    listed, kept = _metadata(file_format)
    records = {location: copy.deepcopy(each) for location, each in kept.items()}
    lines = records[listed].records
    line = lines[data.draw(st.integers(0, 99), label="manifest") % len(lines)]
    if data.draw(st.integers(0, 3), label="kind"):
        files = records[line["manifest_path"]].records
        file = files[data.draw(st.integers(0, 99), label="file") % len(files)]["data_file"]
        columns = [
            *((column, False) for column in COLUMNS),
            *((SCHEMA.find_field(name), True) for name in ("point.x", "point.y")),
        ]
        column, nested = data.draw(st.sampled_from(columns), label="column")
        tell_one(data, list(metrics_lies(file, column, nested=nested)))
        changed = records[line["manifest_path"]].to_bytes()
        line["manifest_length"] = len(changed)
        return {**built(file_format)[0], line["manifest_path"]: changed, listed: records[listed].to_bytes()}
    tell_one(data, list(summary_lies(line)))
    return {**built(file_format)[0], listed: records[listed].to_bytes()}


def _sorted(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: row[0])


@cache
def _rows_of_files(file_format: str) -> dict[str, list[int]]:
    """The ids of the rows in each data file."""
    STORES["hints"] = built(file_format)[0]
    rows = formatkit.scan(_loaded(file_format), select=("id", "_file")).to_arrow().to_pylist()
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row["_file"], []).append(row["id"])
    return found


@cache
def _loaded(file_format: str) -> Any:
    return formatkit.load_table(built(file_format)[1], {**LYING_IO, STORE: "hints"})


@pytest.mark.parametrize("file_format", FORMATS)
def test_no_lie_changes_an_answer(file_format: str) -> None:
    """Some answers are read. Of the others it is enough to know which files are read, and which rows are not tested."""

    @OFTEN
    @given(st.data())
    def check(data: st.DataObject) -> None:
        rows_of = _rows_of_files(file_format)
        STORES["hints"] = _told(data, file_format)
        predicate = data.draw(filters(), label="where")
        scan = formatkit.scan(_loaded(file_format), predicate, select=("id", "text", "tags"), threads=1)
        expected = {row[0] for row in right(predicate)}
        planned = {id_ for task in scan.tasks for id_ in rows_of[task.location]}
        untested = {id_ for task in scan.tasks if task.residual == AlwaysTrue() for id_ in rows_of[task.location]}
        assert untested <= expected <= planned
        if not data.draw(st.integers(0, 19), label="read"):
            assert _sorted(found(scan.to_arrow())) == _sorted(right(predicate))
            assert scan.count() == len(expected)

    check()


AGGREGATES = ("count(text)", "min(id)", "max(day)", "min(price)", "max(number)", "count(small)")


@settings(SETTINGS)
@given(st.data())
def test_no_lie_changes_an_aggregate(data: st.DataObject) -> None:
    STORES["hints"] = _told(data, "parquet")
    answer = formatkit.scan(_loaded("parquet")).aggregate(*AGGREGATES).to_pylist()[0]
    rows: pa.Table = table()
    expected = {
        "count(text)": len(rows) - rows["text"].null_count,
        "min(id)": 0,
        "max(day)": max(value for value in rows["day"].to_pylist() if value is not None),
        "min(price)": min(value for value in rows["price"].to_pylist() if value is not None),
        "count(small)": len(rows) - rows["small"].null_count,
    }
    assert {name: answer[name] for name in expected} == expected
    # NaN is the greatest number.
    assert answer["max(number)"] != answer["max(number)"]


def test_what_is_dropped_is_counted() -> None:
    listed, kept = _metadata("parquet")
    records = {location: copy.deepcopy(each) for location, each in kept.items()}
    line = records[listed].records[0]
    for entry in records[line["manifest_path"]].records:
        dict(metrics_lies(entry["data_file"], SCHEMA.find_field("day"), nested=False))["NaN in another type"]()
    changed = records[line["manifest_path"]].to_bytes()
    line["manifest_length"] = len(changed)
    line["partitions"][1]["lower_bound"] = None
    files = {**built("parquet")[0], line["manifest_path"]: changed, listed: records[listed].to_bytes()}
    STORES["hints"] = files
    explained = formatkit.scan(_loaded("parquet"), "day >= '1960-01-01'").explain()
    count = len(records[line["manifest_path"]].records)
    assert explained.hints_dropped == {"manifest_metrics_dropped": count, "partition_summaries_dropped": 1}
    assert f"manifest_metrics_dropped {count}" in str(explained)
