"""What the machine offers besides Python: Java, io_uring, the page cache, and limits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from formatkit.cli.doctor_findings import Finding

__all__ = ["machine_findings"]

_JAVA_FOR_SPARK = (17, 21)
_JAVA_ADVICE = "for Spark, install a JDK 17 or 21 and let JAVA_HOME or PATH lead to it"
_JAVA_SECONDS = 30


def machine_findings() -> Iterator[Finding]:
    """All that can be said about the machine."""
    yield _java()
    yield _runtime()
    yield _io_uring()
    yield _page_cache()
    yield from _limits()


def _java() -> Finding:
    """The Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if program is None:
        return Finding("java", "java", "missing", "neither JAVA_HOME nor PATH leads to it", _JAVA_ADVICE)
    try:
        answer = subprocess.run(  # noqa: S603 - the very program that Spark would start
            [program, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        source = "JAVA_HOME" if home else "PATH"
        return Finding("java", "java", "broken", f"{program}, to which {source} leads: {error}", _JAVA_ADVICE)
    number = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    described = f"{(answer.stderr or answer.stdout).partition(chr(10))[0]}, {program}"
    if number is None or int(number[1]) not in _JAVA_FOR_SPARK:
        return Finding("java", "java", "unsuitable", described, _JAVA_ADVICE)
    return Finding("java", "java", "ok", described)


def _runtime() -> Finding:
    from formatkit.errors import ConfigurationError
    from formatkit.io import default_runtime

    try:
        runtime = default_runtime()
    except ConfigurationError as error:
        return Finding("storage", "IO runtime", "broken", str(error), "change or unset FORMATKIT_IO_…")
    room = f"{runtime.budget.most_bytes >> 20} MiB ahead"
    return Finding("storage", "IO runtime", "ok", f"{runtime.threads} threads, {room}; io_uring {runtime.io_uring}")


def _io_uring() -> Finding:
    from formatkit.io.uring import availability

    found = availability()
    if found.available:
        return Finding("storage", "io_uring", "ok", f"kernel {found.kernel}")
    return Finding("storage", "io_uring", "missing", found.reason)


def _page_cache() -> Finding:
    """Whether the kernel tells what of a file it has in memory, so that such bytes need no thread."""
    name, folder = "page-cache probes", tempfile.gettempdir()
    if not hasattr(os, "RWF_NOWAIT"):
        return Finding("storage", name, "missing", f"{sys.platform} has no RWF_NOWAIT; all reads use the IO runtime")
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"probe")
            file.flush()
            os.preadv(file.fileno(), [bytearray(5)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        pass
    except OSError as error:
        return Finding("storage", name, "missing", f"the file system of {folder} refuses RWF_NOWAIT: {error.strerror}")
    return Finding("storage", name, "ok", f"RWF_NOWAIT works in {folder}")


def _limits() -> Iterator[Finding]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Finding("limits", "processors", "ok", f"{usable} usable of {os.cpu_count()}")
    if sys.platform != "win32":
        import resource

        for name, limit in (("open files", resource.RLIMIT_NOFILE), ("locked memory", resource.RLIMIT_MEMLOCK)):
            now, most = (
                "unlimited" if value == resource.RLIM_INFINITY else f"{value:,}" for value in resource.getrlimit(limit)
            )
            yield Finding("limits", name, "ok", f"{now}; can be raised to {most}" if now != most else now)
