"""One engine in a process of its own: answers a line of JSON with a line of JSON, so that rounds can be interleaved."""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from typing import Any

from contestants import prepare, questions


def serve(name: str, metadata_location: str, rows: int) -> None:
    """Time one question for each line that comes in."""
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
    """The same columns of the same file, decoded by bare pyarrow and through the kernel, in turns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import formatkit
    from formatkit.contract import DEFAULT_BATCH_ROWS

    pa.set_cpu_count(1)

    def bare() -> int:
        with pq.ParquetFile(path, memory_map=True, pre_buffer=False) as file:
            return sum(batch.num_rows for batch in file.iter_batches(DEFAULT_BATCH_ROWS, use_threads=False))

    def kernel() -> int:
        return sum(batch.num_rows for batch in formatkit.read_file(path, threads=1).to_batches())

    seconds: dict[str, list[float]] = {"bare": [], "kernel": []}
    for number in range(runs + 1):
        for name, read in (("bare", bare), ("kernel", kernel)):
            started = time.perf_counter()
            read()
            if number:
                seconds[name].append(time.perf_counter() - started)
    reply(seconds)


def reply(answer: Any) -> None:
    print(json.dumps(answer), flush=True)


def _peak_megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


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
