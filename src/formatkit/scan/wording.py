"""Numbers for people to read."""

from __future__ import annotations

__all__ = ["number", "size"]

_KILO = 1024


def number(count: int, noun: str) -> str:
    """A count with its noun."""
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count:,} {noun}{ending}"


def size(length: float) -> str:
    """A length in bytes."""
    for unit in ("bytes", "KiB", "MiB"):
        if length < _KILO:
            return f"{length:.0f} {unit}" if unit == "bytes" else f"{length:.1f} {unit}"
        length /= _KILO
    return f"{length:.1f} GiB"
