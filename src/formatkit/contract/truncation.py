"""Shortened bounds: a lower one that is not above, an upper one that is not below the true extreme."""

from __future__ import annotations

__all__ = ["truncated_lower", "truncated_upper"]

_LAST_CODE_POINT = 0x10FFFF
_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000


def truncated_lower(value: str | bytes, length: int) -> str | bytes:
    """The first `length` code points or bytes."""
    return value[:length]


def truncated_upper(value: str | bytes, length: int) -> str | bytes | None:
    """The least value of at most `length` code points or bytes that is not below `value`; None if there is none."""
    if len(value) <= length:
        return value
    prefix = value[:length]
    return _next_string(prefix) if isinstance(prefix, str) else _next_bytes(prefix)


def _next_string(prefix: str) -> str | None:
    kept = prefix.rstrip(chr(_LAST_CODE_POINT))
    if not kept:
        return None
    last = ord(kept[-1])
    return kept[:-1] + chr(_AFTER_SURROGATES if last == _BEFORE_SURROGATES else last + 1)


def _next_bytes(prefix: bytes) -> bytes | None:
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None
