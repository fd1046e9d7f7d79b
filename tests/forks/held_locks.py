"""Run by `test_forks`: every lock of formatkit and pyiceberg that can be found is held while the process is forked."""

from __future__ import annotations

import faulthandler
import functools
import gc
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forks.forking_parent import Scans

import formatkit
from formatkit.forks import uninterrupted

LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition)


def locks() -> Iterator[Any]:
    """Locks of modules, of objects, and of attributes that are computed once."""
    for thing in gc.get_objects():
        if isinstance(thing, functools.cached_property) and hasattr(thing, "lock"):
            yield thing.lock
        home = getattr(thing, "__name__", "") if isinstance(thing, type(os)) else type(thing).__module__
        if str(home).partition(".")[0] not in ("formatkit", "pyiceberg") or home == "formatkit.forks":
            continue
        if isinstance(thing, threading.Thread):
            # It has a lock while it runs.
            continue
        for value in list(getattr(thing, "__dict__", {}).values()):
            if isinstance(value, LOCKS) and value is not uninterrupted:
                yield value


def main(folder: Path) -> None:
    warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
    scans = Scans(folder)
    scans.run()
    source = formatkit.io.open_source(folder / "data.parquet")
    source.read(0, 4)
    held = threading.Event()

    def hold() -> None:
        found = {id(lock): lock for lock in locks()}
        for lock in found.values():
            assert lock.acquire(timeout=5)
        assert len(found) > 10
        held.set()
        threading.Event().wait()

    threading.Thread(target=hold, daemon=True).start()
    assert held.wait(30)
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        assert bytes(source.read(0, 4)) == b"PAR1"
        scans.run()
        gc.collect()
        sys.exit(0)
    status = os.waitpid(pid, 0)[1]
    # The parent could not even close the source: its locks are still held.
    os._exit(int(status != 0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
