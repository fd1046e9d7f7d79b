"""Why there is no io_uring: what the machine really says, and what we make of it."""

from __future__ import annotations

import errno
import importlib
import os
import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from formatkit.errors import ConfigurationError, IoUringUnavailableError
from formatkit.io.uring import availability
from formatkit.io.uring.availability import why_unavailable

MODULE = importlib.import_module("formatkit.io.uring.availability")
RunScript = Callable[[str, Path], str]

TRY = """
from formatkit.errors import IoUringUnavailableError
from formatkit.io.uring import UringReader, availability
found = availability()
try:
    UringReader().close()
except IoUringUnavailableError as error:
    assert error.reason == found.reason, (error.reason, found.reason)
    assert not found.available
    print(error)
else:
    assert found.available
    print("available")
"""

# A filter of eight instructions: the system call of this number ends with this error, all others pass.
FORBID = """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
def forbid(number, code):
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | code), (0x06, 0, 0, 0x7FFF0000)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(program)))
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(header)), 0, 0) == 0
"""


def test_this_machine_has_a_ring() -> None:
    found = availability()
    assert (found.available, found.reason) == (True, "")
    assert found.kernel == f"Linux {platform.release()}"
    assert "NODROP" in found.features


@pytest.mark.parametrize(("number", "name"), [(425, "EPERM"), (426, "ENOSYS")], ids=["setup", "enter"])
def test_a_seccomp_filter_is_named_as_the_reason(run_script: RunScript, path: Path, number: int, name: str) -> None:
    said = run_script(f"{FORBID}\nforbid({number}, {getattr(errno, name)})\n{TRY}", path)
    assert "a seccomp filter forbids it" in said
    assert name in said
    assert 'io_uring="auto"' in said


def test_a_limit_on_locked_memory_is_named_as_the_reason(run_script: RunScript, path: Path) -> None:
    lower = """
import os, resource
import formatkit.io.uring
resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
"""
    said = run_script(lower + TRY, path)
    # Some kernels (5.12 to 6.13) do not count rings as locked memory.
    assert said == "available" or "the limit on locked memory is too small" in said


def test_a_process_without_descriptors_left_says_so(run_script: RunScript, path: Path) -> None:
    lower = """
import os, resource
import formatkit.io.uring
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1,) * 2)
"""
    said = run_script(lower + "print(formatkit.io.uring.availability().reason)", path)
    assert "no descriptor is left" in said


@pytest.mark.usefixtures("needs_no_ring")
@pytest.mark.parametrize(
    ("switch", "says"),
    [("1", "for processes without CAP_SYS_ADMIN"), ("2", "for everybody")],
)
def test_the_switch_of_the_kernel_is_named_as_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switch: str, says: str
) -> None:
    file = tmp_path / "io_uring_disabled"
    file.write_text(f"{switch}\n")
    monkeypatch.setattr(MODULE, "_SWITCH", file)
    error = why_unavailable(PermissionError(errno.EPERM, os.strerror(errno.EPERM)))
    assert f"kernel.io_uring_disabled is {switch}" in error.reason
    assert says in error.reason


@pytest.mark.usefixtures("needs_no_ring")
def test_a_switch_that_is_on_is_not_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "io_uring_disabled"
    file.write_text("0\n")
    monkeypatch.setattr(MODULE, "_SWITCH", file)
    assert "io_uring_disabled" not in why_unavailable(PermissionError(errno.EPERM, "no")).reason


@pytest.mark.usefixtures("needs_no_ring")
@pytest.mark.parametrize(
    ("release", "says"),
    [("5.4.0-generic", "5.4.0-generic is too old; io_uring reads need 5.6"), ("6.1.0", "6.1.0 was built without it")],
)
def test_an_old_kernel_is_named_as_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, says: str
) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    monkeypatch.setattr(MODULE, "_STATUS", tmp_path / "nothing")
    assert says in why_unavailable(OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))).reason


@pytest.mark.usefixtures("needs_no_ring")
def test_other_systems_are_named_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    error = why_unavailable(None)
    assert "this is Darwin" in error.reason
    assert isinstance(error, IoUringUnavailableError)
    assert isinstance(error, ConfigurationError)
