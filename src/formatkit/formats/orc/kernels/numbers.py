"""The numbers that compiled code and its callers agree on."""

from __future__ import annotations

from typing import Final

__all__ = ["AT", "BITS", "BUFFER", "BYTE", "CURSOR_NUMBERS", "DAMAGED", "END", "LEFT", "LONGEST_RUN", "SLACK", "VALUE"]

DAMAGED: Final = -1
"""What functions return for bytes that are damaged, or in a form that they do not know."""

SLACK: Final = 16
"""So many bytes behind a stream may be read, and behind what is asked for may be written."""

LONGEST_RUN: Final = 512

# The cursor of a stream, numbers of 64 bits. The first two are set by the caller, the others begin as zeros.
AT: Final = 0
"""Where the next run begins, and where the stream ends."""
END: Final = 1
LEFT: Final = 2
"""How many values of the current run are left."""
VALUE: Final = 3
"""The byte that is repeated, or -1; or where in the buffer the next integer is."""
BYTE: Final = 4
"""The bits of a byte that are left, the next one lowest, and how many they are."""
BITS: Final = 5
BUFFER: Final = 6
"""Integers of a run of which fewer were asked for."""
CURSOR_NUMBERS: Final = BUFFER + LONGEST_RUN
