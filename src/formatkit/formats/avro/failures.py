"""The errors of damaged files, which name the file."""

from __future__ import annotations

from formatkit.errors import CorruptFileError

__all__ = ["BlockError", "corrupt"]


class BlockError(ValueError):
    """The bytes of a block are not what the codec or the schema says; whoever knows where the block is adds that."""


def corrupt(location: str, what: str) -> CorruptFileError:
    """The error for a file that contradicts itself."""
    return CorruptFileError(f"{location}: is a corrupt Avro file: {what}", location=location)
