"""What must be made anew in the child of a fork: threads do not survive it, and locks may be held by those."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["SurvivesFork", "renew_after_fork"]


class SurvivesFork(Protocol):
    """Something that is usable in a forked child once it was told."""

    def after_fork(self) -> None:
        """Forget what other threads had under way. No other thread runs, and no lock can be trusted."""
        ...


_alive: WeakSet[SurvivesFork] = WeakSet()


def renew_after_fork(thing: SurvivesFork) -> None:
    """Tell a thing, as long as it lives, when it finds itself in a child."""
    _alive.add(thing)


def _in_child() -> None:
    for thing in list(_alive):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
