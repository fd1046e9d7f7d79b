"""Replaces attributes of another library's classes and modules, and puts them back."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from formatkit.errors import ConfigurationError

__all__ = ["Patches"]


@dataclass(frozen=True)
class _Patch:
    owner: Any
    name: str
    original: Any
    replacement: Any

    @property
    def intact(self) -> bool:
        return vars(self.owner).get(self.name) is self.replacement

    def undo(self) -> None:
        setattr(self.owner, self.name, self.original)

    def __str__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"


class Patches:
    """What was replaced, and by what."""

    def __init__(self) -> None:
        self._patches: list[_Patch] = []

    def replace(self, owner: Any, name: str, replacement: Any) -> None:
        """Replace an attribute that the owner itself has."""
        original = vars(owner)[name]
        setattr(owner, name, replacement)
        self.replaced(owner, name, original)

    def replaced(self, owner: Any, name: str, original: Any) -> None:
        """Take over an attribute that was replaced already."""
        self._patches.append(_Patch(owner, name, original, vars(owner)[name]))

    def undo(self) -> None:
        """Put everything back.

        Raises:
            ConfigurationError: Somebody else has replaced one of them since; nothing is put back then.
        """
        foreign = [str(patch) for patch in self._patches if not patch.intact]
        if foreign:
            raise ConfigurationError(
                f"another library has replaced {', '.join(foreign)} since formatkit did; undo that first"
            )
        with ExitStack() as stack:
            for patch in self._patches:
                stack.callback(patch.undo)
        self._patches.clear()
