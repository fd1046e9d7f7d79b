"""Run by `test_forks`: threads scan, the main thread forks at random moments, and each child works and ends."""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import formatkit
from support.plain_file import LocalFile

FILES = ("data.parquet", "data.orc", "data.avro", "data.arrow")
ROWS = 20_000
DEADLINE_SECONDS = 30


class Scans:
    """Scans of the same objects by all threads, and by the children of a fork."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: dict[str, Any] = {}
        self.failure: BaseException | None = None
        self.going = threading.Event()
        self.going.set()

    def run(self) -> None:
        for name in FILES:
            # The first thread that comes here makes it, and children use what they find.
            scan = self.kept.setdefault(name, formatkit.read_file(self.folder / name, "n >= 0", threads=2))
            assert scan.count() == ROWS, name
            assert formatkit.read_file(LocalFile(self.folder / name), threads=2).count() == ROWS, name
        assert self.of_table().to_arrow().num_rows == ROWS

    def of_table(self) -> Any:
        metadata = max(self.folder.glob("warehouse/**/*.metadata.json"), key=lambda path: path.name)
        table = self.kept.setdefault("table", formatkit.load_table(str(metadata)))
        return formatkit.scan(table, threads=2, batch_rows=500)

    def run_for_ever(self) -> None:
        try:
            while self.going.wait():
                self.run()
        except BaseException as error:  # noqa: BLE001 - the main thread reports it
            traceback.print_exc()
            self.failure = error


def child(scans: Scans, stream: Any, number: int) -> None:
    # Loaded here only, so that threads of the parent load what scans need.
    import pyarrow as pa
    import pytest

    from formatkit.errors import UnsupportedError

    faulthandler.dump_traceback_later(DEADLINE_SECONDS, exit=True)
    if stream is not None:
        with pytest.raises(UnsupportedError, match="forked"):
            next(stream)
        stream.close()
    scans.run()
    path = scans.folder / f"child-{os.getpid()}-{number}.{random.choice(('parquet', 'avro', 'orc', 'arrow'))}"
    formatkit.write_file(path, pa.table({"n": [1, 2, 3]}))
    assert formatkit.read_file(path).count() == 3
    path.unlink()
    del stream
    gc.collect()


def main(folder: Path, forks: int, seed: int) -> int:
    warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
    chance = random.Random(seed)
    scans = Scans(folder)
    for _ in range(3):
        threading.Thread(target=scans.run_for_ever, daemon=True).start()
    stream = None
    for number in range(forks):
        # Most of what is done once is done in the first second.
        time.sleep(chance.uniform(0, 1.5 if number < 2 else 0.1))
        if number == forks - 1:
            stream = scans.of_table().to_batches()
            next(stream)
        pid = os.fork()
        if pid == 0:
            # Not `os._exit`: what runs at the end of a process must not hang either.
            child(scans, stream, number)
            sys.exit(0)
        # The child gets the processors.
        scans.going.clear()
        _, status = os.waitpid(pid, 0)
        scans.going.set()
        if status or scans.failure:
            print(f"fork {number} of seed {seed}: status {status}, {scans.failure!r}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    sys.stderr.flush()
    # Threads still scan.
    os._exit(code)
