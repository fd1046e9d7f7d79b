"""A child of a process that has used Lance is told so; a child of any other process reads and writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")

_PARENT = """
import os, sys
import pyarrow as pa
import formatkit
from formatkit.errors import UnsupportedError

before, path = sys.argv[1:]
rows = pa.table({"id": list(range(1000))})

def in_child(action):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        except UnsupportedError as error:
            code = 7 if "spawn" in str(error) and "forkserver" in str(error) else 8
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def read():
    assert formatkit.read_file(path).to_arrow().num_rows == 1000

assert in_child(lambda: formatkit.write_file(path, rows)) == 0
if before == "import":
    import lance.file
elif before == "read":
    read()
elif before == "write":
    formatkit.write_file(path + ".lance", rows)
actions = [read, lambda: formatkit.write_file(path + ".2.lance", rows), lambda: in_child(read) and read()]
print(*(in_child(action) for action in actions))
os._exit(0)
"""


@pytest.mark.parametrize(
    ("before", "codes"),
    [("nothing", "0 0 0"), ("import", "0 0 0"), ("read", "7 7 7"), ("write", "7 7 7")],
)
def test_a_child_of_a_process_that_has_used_lance_is_told_so(tmp_path: Path, before: str, codes: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", _PARENT, before, str(tmp_path / "rows.lance")]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (outcome.stdout.strip(), outcome.returncode) == (codes, 0), outcome.stderr
    left = {path.name for path in tmp_path.iterdir()}
    assert ("rows.lance.2.lance" in left) == (codes == "0 0 0")
