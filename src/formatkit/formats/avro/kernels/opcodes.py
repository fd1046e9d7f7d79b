"""The operations of which decode programs are made, and what running one may end with.

An operation is four integers: its code, a slot, an argument and a place in the program to go on at. Slots are the
buffers that become Arrow columns. The compiled kernel and the interpreter give the same meaning to each operation.
"""

from __future__ import annotations

from enum import IntEnum, auto

__all__ = ["ANY_WIDTH", "LAST_WITH_VARINT", "VARINT_WIDTH", "Op", "Outcome"]


class Op(IntEnum):
    """What to do next. The first group begins with reading a varint, called v here."""

    LONG = 0
    """Append v as 64 bits."""
    INT = auto()
    """Append v as 32 bits."""
    SCALED = auto()
    """Append v times the argument as 64 bits."""
    SYMBOL = auto()
    """Append v, which is below the argument, as 32 bits."""
    BYTES = auto()
    """Append the v bytes that follow, and where they end to the slot that the argument names."""
    DECIMAL_BYTES = auto()
    """Append the number in the v bytes that follow, big end first, as 128 bits."""
    UUID_TEXT = auto()
    """Append the uuid that the v characters that follow spell, as 16 bytes."""
    OPTION = auto()
    """Append whether v is not the argument; if it is, jump."""
    ONLY_BRANCH = auto()
    """Nothing: v is zero."""
    BLOCK = auto()
    """Begin v elements; if there are none, append their number so far, from the slot of the argument, and jump."""
    EMPTY_BLOCK = auto()
    """The same for elements that take no bytes: count them, and look for the next block."""
    SKIP_SIZED = auto()
    """Pass over v bytes."""
    SKIP_OPTION = auto()
    """If v is the argument, jump."""
    SKIP_BLOCK = auto()
    """Begin v elements. They are passed over at once if the argument is their width or says that each is a varint.
    If there are none, jump."""
    UNION = auto()
    """Enter branch v, below the argument, of a union."""
    SWITCH = auto()
    """Go on at operation v, below the argument, of those that follow."""

    BOOLEAN = auto()
    """Append one byte that is zero or one."""
    FOUR = auto()
    """Append four bytes."""
    EIGHT = auto()
    """Append eight bytes."""
    FIXED = auto()
    """Append as many bytes as the argument says."""
    DECIMAL_FIXED = auto()
    """Append the number in as many bytes, big end first, as 128 bits."""
    NEXT = auto()
    """Count an element in the slot of the argument and go back to the jump for the next, or for the next block."""
    SKIP_NEXT = auto()
    """The same without counting."""
    SKIP_BYTES = auto()
    """Pass over as many bytes as the argument says."""
    SKIP_VARINTS = auto()
    """Pass over as many varints as the argument says."""
    UNION_OPTION = auto()
    """Append whether the branch of the union is not the argument; if it is, jump."""
    UNION_TAG = auto()
    """Append the number of the branch as 32 bits, the branch of the argument, which is null, not counted."""
    UNION_BRANCH = auto()
    """Append whether the branch of the union is the argument; if it is not, jump."""
    SKIP_BRANCH = auto()
    """If the branch of the union is not the argument, jump."""
    END_UNION = auto()
    """Leave the union."""
    FILL = auto()
    """Append zeros as wide as the argument."""
    FILL_NULL = auto()
    """Append that there is no value."""
    FILL_END = auto()
    """Append the last end again: an empty value."""
    JUMP = auto()
    """Go on at the jump."""
    CALL = auto()
    """Go on at the jump until RETURN."""
    RETURN = auto()
    """Go on after the CALL."""
    END_ROW = auto()
    """The row is complete."""


LAST_WITH_VARINT = Op.SWITCH

ANY_WIDTH = -1
"""The argument of SKIP_BLOCK for elements that the operations behind it pass over one by one."""

VARINT_WIDTH = -2
"""The argument of SKIP_BLOCK for elements that are varints."""


class Outcome(IntEnum):
    """How a run ended. Below zero the block is damaged."""

    DONE = 0
    NEEDS_ROOM = 1
    NEEDS_STACK = 2
    TRUNCATED = -1
    LONG_VARINT = -2
    NEGATIVE_LENGTH = -3
    WRONG_BRANCH = -4
    WRONG_BOOLEAN = -5
    OUT_OF_RANGE = -6
    WIDE_DECIMAL = -7
    WRONG_UUID = -8
    WRONG_SYMBOL = -9

    @property
    def reason(self) -> str:
        return _REASONS[self]


_REASONS = {
    Outcome.TRUNCATED: "a value runs past the end of the block",
    Outcome.LONG_VARINT: "an integer has more than 64 bits",
    Outcome.NEGATIVE_LENGTH: "a length is negative",
    Outcome.WRONG_BRANCH: "a union has no branch of the stored number",
    Outcome.WRONG_BOOLEAN: "a boolean is neither 0 nor 1",
    Outcome.OUT_OF_RANGE: "an integer does not fit its type",
    Outcome.WIDE_DECIMAL: "a decimal has more than 128 bits",
    Outcome.WRONG_UUID: "a text is not a uuid",
    Outcome.WRONG_SYMBOL: "an enum has no symbol of the stored number",
}
