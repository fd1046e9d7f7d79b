"""Blobs of deletion vectors made by hand."""

from __future__ import annotations

import zlib

__all__ = ["framed"]


def framed(content: bytes) -> bytes:
    """Any content with the length and the checksum of a blob."""
    return len(content).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")
