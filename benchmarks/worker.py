"""One engine in a process of its own: answers a line of JSON with a line of JSON, so that rounds can be interleaved."""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any


def serve(name: str, metadata_location: str, rows: int) -> None:
    """Time one question for each line that comes in."""
    from contestants import prepare, questions

    ask = prepare(name, metadata_location)
    known = {question.name: question for question in questions(rows)}
    for line in sys.stdin:
        question = known[json.loads(line)]
        started = time.perf_counter()
        try:
            answer = ask(question)
        except Exception as error:  # noqa: BLE001 - a failure is a result, and the other questions still count
            reply({"error": f"{type(error).__name__}: {error}"})
            continue
        reply({"seconds": time.perf_counter() - started, "rows": answer.num_rows})
        del answer


def stream(metadata_location: str) -> None:
    """Read everything batch by batch, as a consumer that keeps nothing, and tell the peak of memory."""
    from pyiceberg.table import StaticTable

    import formatkit

    before = _peak_megabytes()
    rows = size = 0
    for batch in formatkit.scan(StaticTable.from_metadata(metadata_location)).to_batches():
        rows += batch.num_rows
        size += batch.nbytes
    reply({"rows": rows, "arrow_megabytes": size >> 20, "before": before, "peak": _peak_megabytes()})


def overhead(path: str, runs: int) -> None:
    """All columns of the same file, decoded by bare pyarrow, by formatkit's reader, and as a scan, in turns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import formatkit
    from formatkit.contract import DEFAULT_BATCH_ROWS, OpenOptions, ReadOptions
    from formatkit.formats.parquet.plugin import ParquetFormat
    from formatkit.io import open_source

    pa.set_cpu_count(1)

    def bare() -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(DEFAULT_BATCH_ROWS, use_threads=False)

    def reader() -> Iterator[pa.RecordBatch]:
        with closing(open_source(path)) as source:
            file = ParquetFormat().reader().open(source, OpenOptions())
            yield from file.read(ReadOptions(projection=file.schema)).batches

    def scan() -> Iterator[pa.RecordBatch]:
        return formatkit.read_file(path, threads=1).to_batches()

    seconds: dict[str, list[float]] = {"bare": [], "reader": [], "scan": []}
    # One thread, so that the time of the processor is what counts; it is less disturbed by others than the clock.
    for number in range(4 * runs + 1):
        for name, batches in (("bare", bare), ("reader", reader), ("scan", scan)):
            started = time.process_time()
            for _ in batches():
                pass
            if number:
                seconds[name].append(time.process_time() - started)
    reply(seconds)


def reply(answer: Any) -> None:
    print(json.dumps(answer), flush=True)


def _peak_megabytes() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    # The peak of `getrusage` is inherited from the parent process; this one begins with the program.
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) >> 10


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    command, *arguments = sys.argv[1:]
    match command:
        case "serve":
            serve(arguments[0], arguments[1], int(arguments[2]))
        case "stream":
            stream(arguments[0])
        case "overhead":
            overhead(arguments[0], int(arguments[1]))
