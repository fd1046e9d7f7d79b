"""Run by `test_forks`: a process is forked while it writes files. Only the parent may finish or remove them."""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

import formatkit
from formatkit.errors import FormatkitError
from formatkit.io import open_sink
from formatkit.write.commit.cleanup import UncommittedFiles


def in_child(work: Callable[[], object]) -> None:
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        work()
        gc.collect()
        # With all that runs at the end of a process, such as the flushing of files.
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def sink_streams(folder: Path) -> None:
    path = folder / "plain.bin"
    stream = open_sink(path).create()
    for _ in range(3):
        stream.write(b"x" * 700_000)
    stream.flush()
    stream.write(b"y" * 1000)

    def child() -> None:
        for call in (lambda: stream.write(b"z"), stream.flush, stream.close):
            with pytest.raises(FormatkitError, match="forked"):
                call()
        stream.abort()

    in_child(child)
    in_child(lambda: None)
    in_child(stream.abort)
    stream.close()
    assert path.read_bytes() == b"x" * 2_100_000 + b"y" * 1000


def uncommitted_files(folder: Path) -> None:
    path = folder / "data.parquet"
    with UncommittedFiles(PyArrowFileIO()) as files:
        formatkit.write_file(path, pa.table({"n": [1]}))
        files.add(str(path))
        in_child(files.discard)
        assert path.exists()
    assert not path.exists()


def writers(folder: Path) -> None:
    rows = pa.table({"n": range(60_000)})
    for name in ("parquet", "avro", "orc", "arrow"):
        path = folder / f"rows.{name}"

        def batches() -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(rows.to_batches(max_chunksize=6_000)):
                if number == 6:
                    in_child(lambda: None)
                yield batch

        formatkit.write_file(path, pa.RecordBatchReader.from_batches(rows.schema, batches()))
        assert formatkit.read_file(path).to_arrow().column("n").to_pylist() == list(range(60_000)), name


if __name__ == "__main__":
    warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
    sink_streams(Path(sys.argv[1]))
    uncommitted_files(Path(sys.argv[1]))
    writers(Path(sys.argv[1]))
