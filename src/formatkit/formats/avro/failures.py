"""The errors of damaged files, which name the file."""

from __future__ import annotations

from formatkit.errors import CorruptFileError

__all__ = ["BlockError", "LongBlockError", "UnfitValueError", "corrupt"]


class BlockError(ValueError):
    """The bytes of a block are not what the codec or the schema says; whoever knows where the block is adds that."""


class LongBlockError(BlockError):
    """A block would be longer than the caller allows once decompressed."""


class UnfitValueError(ValueError):
    """A value is sound and has no place in the Iceberg type of its column."""


def corrupt(location: str, what: str) -> CorruptFileError:
    """The error for a file that contradicts itself."""
    return CorruptFileError(f"{location}: is a corrupt Avro file: {what}", location=location)
