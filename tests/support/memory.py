"""How much memory a process has had."""

from __future__ import annotations

import re
import resource
from pathlib import Path

__all__ = ["peak_bytes"]


def peak_bytes() -> int:
    """The most memory that this process has had since its program began.

    `ru_maxrss` would include what the process that started it had.
    """
    status = Path("/proc/self/status")
    found = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE) if status.exists() else None
    return 1024 * (int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
