"""The numbers that compiled code and its callers agree on."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

__all__ = [
    "BIG_ENDIAN",
    "BITS",
    "BYTES",
    "CHUNK_NUMBERS",
    "CURSOR_NUMBERS",
    "DAMAGED",
    "DATA_PAGE_NUMBERS",
    "DICTIONARY",
    "DICTIONARY_COUNT",
    "DICTIONARY_LENGTHS",
    "DICTIONARY_PAGE",
    "DONE",
    "FILLED",
    "FIXED",
    "FRAME",
    "HAVE_CHECKSUMS",
    "INDICES",
    "KIND",
    "LONGEST",
    "MAX_HIGH",
    "MAX_LOW",
    "NEED_DICTIONARY",
    "NULLS",
    "OPTIONAL",
    "OTHER_CODEC",
    "OTHER_FORM",
    "OUTCOME",
    "OUT_OF_PAGES",
    "PAGE",
    "PAGES",
    "PAGE_COUNT",
    "PAGE_LEFT",
    "REACHED",
    "ROOM",
    "ROOM_BYTES",
    "ROWS_FOUND",
    "SHORT_OF_ROOM",
    "SLACK",
    "STEP_NUMBERS",
    "STORED_WIDTH",
    "SUMMARY_NUMBERS",
    "TOOLS",
    "WANTED",
    "WIDE",
    "WIDTH",
    "Chunk",
    "Fault",
]

DATA_PAGE_NUMBERS: Final = 12
"""What `find_pages` stores of each page."""

# What `find_pages` stores about all pages:
REACHED: Final = 0
"""Where the last one ends, counted from where the first one begins."""
ROWS_FOUND: Final = 1
"""How many rows the data pages have, whether these were asked for or not."""
LONGEST: Final = 2
"""How many bytes the longest of those that are to be decompressed has then."""
OTHER_CODEC: Final = 3
"""Whether some are to be decompressed that are not one zstd frame each which tells its right length."""
NEED_DICTIONARY: Final = 4
HAVE_CHECKSUMS: Final = 5
DICTIONARY_PAGE: Final = 6
"""Of the page of the dictionary, if it was there: where its content begins, counted as above, and how long it is; how
long it is when it is decompressed; how many values it has; their encoding; its checksum, or -1."""
SUMMARY_NUMBERS: Final = 12

FRAME: Final = 2
"""Stands for pages that are one zstd frame each which tells its right length; 1 stands for others, 0 for none."""

# How values are stored and decoded.
FIXED: Final = 0
"""All in the same number of bytes, which are decoded as they are."""
BITS: Final = 1
"""As bits."""
BYTES: Final = 2
"""As bytes behind their length."""
WIDE: Final = 3
"""As 4 or 8 bytes, decoded as numbers of 16 bytes."""
BIG_ENDIAN: Final = 4
"""As up to 16 bytes, highest first, decoded as numbers of 16 bytes."""

# What a run answers.
DAMAGED: Final = -1
"""The bytes contradict each other."""
OTHER_FORM: Final = -2
"""The bytes are encoded in a way that is not known here."""
SHORT_OF_ROOM: Final = 1
OUT_OF_PAGES: Final = 2

SLACK: Final = 16
"""So many bytes may be written behind the last one that is asked for, and read behind the last one of a dictionary."""

# The cursor of `decode`: 64 bits each. These are set by the caller:
KIND: Final = 0
STORED_WIDTH: Final = 1
WIDTH: Final = 2
"""How many bytes each value has once it is decoded."""
OPTIONAL: Final = 3
PAGES: Final = 4
"""Where the numbers of pages are that `find_pages` stored, and how many pages there are."""
PAGE_COUNT: Final = 5
PAGE: Final = 6
"""The next page."""
TOOLS: Final = 7
ROOM: Final = 8
"""Where pages are decompressed to, and how many bytes have place there."""
ROOM_BYTES: Final = 9
DICTIONARY_COUNT: Final = 10
DICTIONARY: Final = 11
"""Where its values are, as they are decoded, or the addresses of byte arrays, and their lengths."""
DICTIONARY_LENGTHS: Final = 12
INDICES: Final = 13
"""Room for 32 bits of each row of a step, and 64 bytes more."""
DONE: Final = 14
"""How many rows of the step are decoded, how many of them are null, and how many bytes they have."""
NULLS: Final = 15
FILLED: Final = 16
WANTED: Final = 17
"""For how many bytes there should be room if there is not enough."""
# These are not, and begin as zeros:
PAGE_LEFT: Final = 18
"""How many rows of the page are left."""
MAX_HIGH: Final = 37
"""The largest high word of a number of 16 bytes in plain encoding, and half of the largest low word, both without the
sign: the words of a negative number count as those of its complement."""
MAX_LOW: Final = 38
CURSOR_NUMBERS: Final = 39

# A step of `decode_columns`, numbers of 64 bits: the arguments of `decode`, and then what it answered.
OUTCOME: Final = 6
STEP_NUMBERS: Final = 7


class Chunk(IntEnum):
    """Numbers of a column chunk whose pages are checked; offsets are those in the file."""

    AT = 0
    """Where the next header begins."""
    START = 1
    END = 2
    VALUES_LEFT = 3
    """How many values are to come."""
    MAX_LENGTH = 4
    """How many bytes all pages have when they are decompressed, as the footer says."""
    CODEC = 5
    DEFINITION_BITS = 6
    """How many bits a definition level has; 0 if there are none."""
    REPETITION_BITS = 7
    WIDTH = 8
    """How many bytes a value has in plain encoding; 0 for byte arrays, -1 for bits."""
    PADDING = 9
    """How many bytes the writer of the file adds behind the values of a page of version 1."""
    ENCODINGS = 10
    """The encodings that were found, as bits."""
    PAGES = 11
    """How many data pages have which encoding: six bits for each, which are carried over to the next one's."""
    FAULT = 12


CHUNK_NUMBERS: Final = len(Chunk)


class Fault(IntEnum):
    """What is wrong with a page."""

    HEADER = 1
    SIZES = 2
    CHAIN = 3
    COUNT = 4
    LEVELS = 5
    VALUES = 6
    DICTIONARY = 7
