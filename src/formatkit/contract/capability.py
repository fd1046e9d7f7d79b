"""What a plugin may do, and therefore declares.

One mechanism, one place. What is not declared is refused with `UnsupportedError`, or comes back as work for the
kernel (the whole predicate as residual). The TCK proves both directions.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Capability"]


class Capability(Enum):
    """Something that a format plugin declares. The value is the word that reports print."""

    SKIP_CHUNKS = "skip-chunks"
    """Uses statistics to leave out parts of the file that cannot match the predicate."""

    FILTER_ROWS = "filter-rows"
    """Evaluates predicates exactly on rows, so that the residual can be smaller than the predicate."""

    SPLIT = "split"
    """Reads a byte range of a file, and reports split offsets when it writes one.

    Splits of one open file may be read in several threads at once.
    """

    EVOLVE = "evolve"
    """Can return batches in `ReadOptions.target` instead of in the projection."""

    FIELD_IDS = "field-ids"
    """Stores Iceberg field ids in the file and finds them again."""

    FILE_METADATA = "file-metadata"
    """Stores key-value pairs in the file and finds them again."""

    COLUMN_SIZES = "column-sizes"
    """Reports the bytes on disk of each leaf column."""

    DICTIONARY = "dictionary"
    """Hands out columns in dictionary form when asked."""

    ENCRYPTION = "encryption"
    """Encrypts and decrypts by itself, given a key and an AAD prefix."""

    NANOSECONDS = "nanoseconds"
    """Stores timestamp_ns and timestamptz_ns."""

    VARIANT = "variant"
    """Stores variants, nested ones included."""
