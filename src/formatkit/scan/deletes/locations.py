"""The many spellings of one location: delete files name data files, and not all writers spell them alike."""

from __future__ import annotations

__all__ = ["canonical_location", "spellings"]

_FILE_PREFIXES = ("", "file:", "file://", "file://localhost")
_S3_PREFIXES = ("s3:", "s3a:", "s3n:")


def canonical_location(location: str) -> str:
    """The one spelling to compare: ``file:/x`` and ``file:///x`` are ``/x``, and ``s3a`` and ``s3n`` are ``s3``."""
    scheme, colon, rest = location.partition(":")
    scheme = scheme.lower()
    if colon and f"{scheme}:" in _S3_PREFIXES and rest.startswith("//"):
        return f"s3:{rest}"
    if colon and scheme == "file":
        host, slash, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
        return slash + path if host in ("", "localhost") else location
    return location


def spellings(location: str) -> list[str]:
    """All spellings of a location that are in use."""
    canonical = canonical_location(location)
    if canonical.startswith("/"):
        return [prefix + canonical for prefix in _FILE_PREFIXES]
    if canonical.startswith("s3:"):
        return [prefix + canonical.removeprefix("s3:") for prefix in _S3_PREFIXES]
    return [location]
