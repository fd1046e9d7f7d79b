"""Whether this machine lets us use io_uring, and if not, why not and what to do about it."""

from __future__ import annotations

import errno
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from formatkit.errors import IoUringUnavailableError
from formatkit.io.uring.ring import FEATURES, Ring

__all__ = ["Availability", "availability", "why_unavailable"]

_FIRST_KERNEL = (5, 6)
_SWITCH = Path("/proc/sys/kernel/io_uring_disabled")
_STATUS = Path("/proc/self/status")
_FILTERED = "2"


@dataclass(frozen=True)
class Availability:
    """What was found. `reason` is empty if io_uring is available; `features` are the abilities of the kernel."""

    available: bool
    reason: str
    kernel: str
    features: tuple[str, ...] = ()


def availability() -> Availability:
    """Try it out: make a small ring and close it again."""
    kernel = f"{platform.system()} {platform.release()}"
    if sys.platform != "linux":
        return Availability(False, _not_linux(), kernel)
    try:
        ring = Ring(4)
        try:
            ring.enter(0)
        finally:
            ring.close()
    except OSError as error:
        return Availability(False, _reason(error), kernel)
    return Availability(True, "", kernel, tuple(name for name, bit in FEATURES.items() if ring.features & bit))


def why_unavailable(error: OSError | None) -> IoUringUnavailableError:
    """What to tell a caller who needs io_uring. `error` is what the kernel said; None where there is no such kernel."""
    reason = _not_linux() if error is None else _reason(error)
    return IoUringUnavailableError(f'io_uring is not available: {reason}; use io_uring="auto" or "off"', reason=reason)


def _not_linux() -> str:
    return f"it is a part of Linux, and this is {platform.system()}"


def _reason(error: OSError) -> str:
    switch = _text(_SWITCH)
    if error.errno == errno.EPERM and switch in ("1", "2"):
        return _switched_off(switch)
    if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        return _forbidden_or_unknown(error)
    if error.errno == errno.ENOMEM:
        return "the limit on locked memory is too small for a ring (ENOMEM); raise it with ulimit -l or LimitMEMLOCK="
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"no descriptor is left for a ring ({error.strerror}); raise ulimit -n, or close files"
    return f"the kernel says: {error.strerror}"


def _switched_off(switch: str) -> str:
    others = "processes without CAP_SYS_ADMIN that are not in kernel.io_uring_group"
    who = "everybody" if switch == "2" else others
    return f"kernel.io_uring_disabled is {switch}, which switches it off for {who}; set it to 0 with sysctl"


def _forbidden_or_unknown(error: OSError) -> str:
    if _kernel_version() < _FIRST_KERNEL:
        return f"the kernel {platform.release()} is too old; io_uring reads need {'.'.join(map(str, _FIRST_KERNEL))}"
    if _is_filtered():
        name = errno.errorcode[error.errno or 0]
        advice = "as container runtimes do by default; allow io_uring_* in the profile"
        return f"a seccomp filter forbids it ({name}), {advice}"
    if error.errno == errno.ENOSYS:
        return f"the kernel {platform.release()} was built without it (ENOSYS)"
    return f"a security policy forbids it ({error.strerror}), such as SELinux or a container's"


def _is_filtered() -> bool:
    mode = re.search(r"^Seccomp:\s*(\d)", _text(_STATUS), re.MULTILINE)
    return mode is not None and mode.group(1) == _FILTERED


def _kernel_version() -> tuple[int, int]:
    numbers = re.match(r"(\d+)\.(\d+)", platform.release())
    return (int(numbers.group(1)), int(numbers.group(2))) if numbers else _FIRST_KERNEL


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
