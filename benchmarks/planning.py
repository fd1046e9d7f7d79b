"""Planning of large tables: seconds, memory and what a task weighs, by the number of files.

Run as: python -m benchmarks.planning [files …]. The metadata is made by script; there are no data files. Prints a table
in Markdown: processor time, each line measured in a process of its own. The slope compares what each file costs with
the first line: 1 is linear.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from io import BytesIO
from pathlib import Path
from statistics import mean
from typing import IO, Any

import fastavro
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, LongType, NestedField

import formatkit

_FILES_PER_MANIFEST = 20_000
_DAYS = 1_000
_COLUMNS = 10
_FILE_BYTES = 64 << 20
_BUCKETS = 200
_LEAST_SECONDS = 4.0
_FIRST_DAY = date(2020, 1, 1)
_MARK = b"MANIFEST"

FILTERS = {
    "all": None,
    "one day": "day = '2020-03-01'",
    "by metrics": "c1 >= 0 and c1 < 1000000000",
}


@dataclass(frozen=True, eq=False)
class Pattern:
    """An Avro file after which others are made: its first record, its schema, and its other metadata."""

    first: dict[str, Any]
    schema: Any
    metadata: dict[str, str]


def main() -> None:
    sizes = [int(each) for each in sys.argv[1:]] or [10_000, 100_000, 1_000_000]
    print(f"| filter | files | plan s | slope | peak MiB | slope | {_BUCKETS} buckets s | pickled bytes a task |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        tables = {size: make_table(Path(folder) / str(size), size) for size in sizes}
        for title in FILTERS:
            first: dict[str, float] | None = None
            for size, metadata in tables.items():
                found = _in_new_process(metadata, title)
                first = first or found | {"files": size}
                share = size / first["files"]
                print(
                    f"| {title} | {size:,} | {found['plan']:.2f} | {found['plan'] / first['plan'] / share:.2f} "
                    f"| {found['memory']:.0f} | {found['memory'] / max(first['memory'], 1) / share:.2f} "
                    f"| {found['buckets']:.2f} | {found['task']:.0f} |",
                    flush=True,
                )


def _in_new_process(metadata: str, title: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.planning", "--measure", metadata, title]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def measure(metadata: str, title: str) -> dict[str, float]:
    """Plan once to warm up, then again for the figures. Memory is that of the tasks and of all that planning held."""
    table = formatkit.load_table(metadata)
    formatkit.scan(table, where="day = '2019-01-01'", limit=0)
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak up to now
    before = _memory("VmRSS")
    seconds, scan = _timed(lambda: formatkit.scan(table, where=FILTERS[title], threads=1))
    memory = _memory("VmHWM") - before
    # A long run meets good and bad moments of the machine alike; so do many short ones.
    runs = [seconds]
    while sum(runs) < _LEAST_SECONDS:
        runs.append(_timed(lambda: formatkit.scan(table, where=FILTERS[title], threads=1))[0])
    seconds = mean(runs)
    bucketing, buckets = _timed(lambda: scan.buckets(_BUCKETS))
    pickled = sum(len(pickle.dumps(bucket, protocol=pickle.HIGHEST_PROTOCOL)) for bucket in buckets)
    return {"plan": seconds, "memory": memory, "buckets": bucketing, "task": pickled / max(len(scan.tasks), 1)}


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = action()
    return time.process_time() - began, result


def _memory(what: str) -> float:
    """The memory of this process in MiB, now or at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def make_table(folder: Path, files: int) -> str:
    """A table with as many files as asked for, of which only the metadata is there; returns its metadata file."""
    catalog = InMemoryCatalog("benchmark", warehouse=folder.as_uri())
    folder.mkdir(parents=True)
    catalog.create_namespace("db")
    fields = [NestedField(number, f"c{number}", LongType()) for number in range(1, _COLUMNS)]
    table = catalog.create_table(
        "db.t",
        Schema(*fields, NestedField(_COLUMNS, "day", DateType())),
        partition_spec=PartitionSpec(PartitionField(_COLUMNS, 1000, IdentityTransform(), "day")),
    )
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(_pattern())
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    manifest = snapshot.manifests(table.io)[0].manifest_path
    entries = _pattern_of(manifest)
    listed = _pattern_of(snapshot.manifest_list)
    manifests = []
    for number, start in enumerate(range(0, files, _FILES_PER_MANIFEST)):
        path = folder / f"manifest-{number}.avro"
        count = min(_FILES_PER_MANIFEST, files - start)
        path.write_bytes(_manifest(entries, table.location(), count).replace(_MARK, f"{number:08d}".encode()))
        facts = {"manifest_path": path.as_uri(), "manifest_length": path.stat().st_size, "partitions": None}
        manifests.append(listed.first | facts | {"added_files_count": count})
    with (folder / "list.avro").open("wb") as file:
        _write(file, listed, iter(manifests))
    metadata = json.loads(table.metadata.model_dump_json(by_alias=True))
    metadata["snapshots"][-1]["manifest-list"] = (folder / "list.avro").as_uri()
    result = folder / "table.metadata.json"
    result.write_text(json.dumps(metadata))
    return result.as_uri()


def _pattern() -> DataFile:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path="file:///none.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(0),
        record_count=1,
        file_size_in_bytes=_FILE_BYTES,
        sort_order_id=None,
    )
    file.spec_id = 0
    return file


@cache
def _manifest(like: Pattern, location: str, files: int) -> bytes:
    """A manifest with a mark where names of files differ from those in other manifests: encoding takes longest."""
    content = BytesIO()
    _write(content, like, (_entry(like.first, location, each) for each in range(files)))
    return content.getvalue()


def _entry(pattern: dict[str, Any], location: str, number: int) -> dict[str, Any]:
    day = _FIRST_DAY + timedelta(days=number % _DAYS)
    lower, upper = (number * 1000).to_bytes(8, "little"), (number * 1000 + 999).to_bytes(8, "little")
    ids = range(1, _COLUMNS)
    file = pattern["data_file"] | {
        "file_path": f"{location}/data/day={day}/{number:05d}-0-8f0e5a0c-5d0c-4be4-93a3-{_MARK.decode()}-00001.parquet",
        "partition": {"day": day},
        "record_count": 1000,
        "value_counts": [{"key": each, "value": 1000} for each in ids],
        "null_value_counts": [{"key": each, "value": 0} for each in ids],
        "lower_bounds": [{"key": each, "value": lower} for each in ids],
        "upper_bounds": [{"key": each, "value": upper} for each in ids],
        "split_offsets": [4],
    }
    return pattern | {"data_file": file}


def _pattern_of(location: str) -> Pattern:
    with Path(location.removeprefix("file://")).open("rb") as file:
        reader = fastavro.reader(file)
        metadata = {name: value for name, value in reader.metadata.items() if not name.startswith("avro.")}
        first: Any = next(reader)
        return Pattern(first, json.loads(reader.metadata["avro.schema"]), metadata)


def _write(file: IO[bytes], like: Pattern, records: Iterator[dict[str, Any]]) -> None:
    fastavro.writer(file, like.schema, records, metadata=like.metadata)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(*sys.argv[2:])))
    else:
        main()
