"""Orphans in an object store, whose keys may hold whatever a URL means something by."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import PurePosixPath
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import formatkit
from support.object_store import BUCKET, SlowStore

ROWS = pa.table({"id": [1, 2, 3]})


# With what a live file's name may be written like elsewhere.
STRAYS = (
    "{0}#bak", "{0}?versionId=null", "{0}%23", "{0}%2F", "{0}%20", "{0} ", "{0}+", "{0}ü", "{0}~", "{0}&x=1", "{0};v=1",
    "{0}*", " {0}", "#{0}", "?{0}", "%2e%2e/{0}", "x#y/{0}", "x?y/{0}", "a b/{0}", "a+b/{0}", "x.parquet",
)  # fmt: skip


@pytest.mark.parametrize(
    "io",
    ["pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO", "formatkit.io.RuntimeFileIO"],
)
def test_keys_are_deleted_as_they_were_listed_or_not_at_all(store: SlowStore, io: str) -> None:
    root = f"{BUCKET}/{uuid4()}"
    with SqlCatalog(
        "objects", uri="sqlite:///:memory:", warehouse=f"s3://{root}", **{"py-io-impl": io}, **store.properties
    ) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", schema=ROWS.schema)
        formatkit.append(table, ROWS)
        live = next(iter(table.scan().plan_files())).file.file_path.removeprefix("s3://")
        folder = str(PurePosixPath(live).parent)
        orphan = f"{folder}/00000-{uuid4()}-00001.parquet"
        strangers = [f"{folder}/{stray.format(PurePosixPath(live).name)}" for stray in STRAYS]
        files = store.filesystem()
        for key in (orphan, *strangers):
            with files.open_output_stream(key) as stream:
                stream.write(b"left")
        report = formatkit.clean_orphans(table, older_than=timedelta(0), dry_run=False, force=True)
        assert [file.location for file in report.orphans] == [f"s3://{orphan}"]
        assert (report.deleted, report.failures) == (1, {})
        unknown = {each for each in strangers if PurePosixPath(each).name != PurePosixPath(live).name}
        assert {each.removeprefix("s3://") for each in report.kept} == unknown
        assert formatkit.scan(table).to_arrow().num_rows == 3
        names = {info.path for info in files.get_file_info([orphan, live, *strangers]) if info.is_file}
        assert names == {live, *strangers}
        assert report.journal is not None
        for ending, kinds in (("", ["plan", "file"]), ("-outcome", ["outcome"])):
            path = f"{report.journal.removeprefix('s3://').removesuffix('.jsonl')}{ending}.jsonl"
            lines = files.open_input_stream(path).read().decode().splitlines()
            assert [json.loads(line)["kind"] for line in lines] == kinds
