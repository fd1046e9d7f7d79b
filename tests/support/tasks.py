"""Tasks for processes: some end well."""

from __future__ import annotations

import os
import signal
import time

__all__ = ["hears_interrupts", "misbehave"]


def misbehave(task: str) -> str:
    """Do what the task is called; gives its name back if it is nothing bad."""
    match task:
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(3600)
    return f"{task} done"


def hears_interrupts(task: int) -> bool:
    """Whether Ctrl-C reaches this process."""
    return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
