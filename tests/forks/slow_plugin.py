"""Run by `test_forks`: a thread imports a plugin while the process is forked, and the child asks for it, too."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow as pa

from formatkit.registry import FORMATS_GROUP, FormatRegistry

MODULE = """
import time
time.sleep(1)
from formatkit.formats.avro.plugin import AvroFormat

class Slow(AvroFormat):
    file_format = "slow"


"""


def main(folder: Path) -> int:
    warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
    (folder / "slowly_loaded.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    registry = FormatRegistry([EntryPoint("slow", "slowly_loaded:Slow", FORMATS_GROUP)])
    thread = threading.Thread(target=lambda: registry.plugin("slow", pa.RecordBatch), daemon=True)
    thread.start()
    while "slowly_loaded" not in sys.modules:
        time.sleep(0.01)
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        assert registry.plugin("slow", pa.RecordBatch).file_format == "slow"
        sys.exit(0)
    thread.join()
    return int(os.waitpid(pid, 0)[1] != 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
