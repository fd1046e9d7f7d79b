"""The numbers that the encoder's programs and its compiled code agree on."""

from __future__ import annotations

from typing import Final

__all__ = [
    "BAD_DECIMAL",
    "BAD_OFFSETS",
    "BOOLEAN",
    "BYTES",
    "DECIMAL",
    "DONE",
    "FIXED",
    "FIXED4",
    "FIXED8",
    "FULL",
    "INSTRUCTION_BYTES",
    "INT",
    "LIST",
    "LIST_NEXT",
    "LONG",
    "MARGIN",
    "MAX_SHORT",
    "STRUCT",
]

# What an instruction writes. STRUCT writes nothing but its place in a union.
STRUCT: Final = 0
LONG: Final = 1
INT: Final = 2
FIXED4: Final = 3
FIXED8: Final = 4
FIXED: Final = 5
BYTES: Final = 6
DECIMAL: Final = 7
BOOLEAN: Final = 8
LIST: Final = 9
LIST_NEXT: Final = 10

# What a run answers.
DONE: Final = 0
FULL: Final = 1
BAD_OFFSETS: Final = 2
BAD_DECIMAL: Final = 3

INSTRUCTION_BYTES: Final = 64
MAX_SHORT: Final = 64
"""The longest content that is copied in one piece."""

MARGIN: Final = 96
"""More than an instruction touches apart from long content: a branch, the length of a text, a text of MAX_SHORT."""
