"""Slots for the reads in flight, so that a completion finds its read, and never another's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Slab"]

_SLOT_BITS = np.uint64(32)
_SLOT_MASK = np.uint64(0xFFFF_FFFF)


class Slab:
    """Slots with generations. A generation is odd while its slot is taken, and a token names slot and generation.

    A token fits only while the very read is in flight that it was made for: taking and releasing both move the slot on
    to the next generation, so what comes late, twice, or from nowhere is recognised and dropped.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.free = capacity
        self._free_slots = np.arange(capacity, dtype=np.int64)
        self._generation = np.zeros(capacity, dtype=np.uint32)
        self._last_named = np.zeros(capacity, dtype=np.int64)
        self.request = np.zeros(capacity, dtype=np.int64)
        self.read = np.zeros(capacity, dtype=np.int64)
        self.asked = np.zeros(capacity, dtype=np.int64)
        self.needed = np.zeros(capacity, dtype=np.int64)

    def take(
        self, request: int, reads: NDArray[np.int64], asked: NDArray[np.int64], needed: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """A slot for each read of a request; their tokens. The caller sees to it that enough are free.

        Args:
            request: The number of the request.
            reads: The numbers of its reads.
            asked: The most bytes that the kernel may deliver.
            needed: The bytes that make the read complete.
        """
        self.free -= len(reads)
        slots = self._free_slots[self.free : self.free + len(reads)]
        self.request[slots] = request
        self.read[slots] = reads
        self.asked[slots] = asked
        self.needed[slots] = needed
        generations = self._generation[slots] + np.uint32(1)
        self._generation[slots] = generations
        return (generations.astype(np.uint64) << _SLOT_BITS) | slots.astype(np.uint64)

    def find(self, tokens: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The slots of tokens, and which of the tokens fit. Of equal tokens only one does."""
        named = (tokens & _SLOT_MASK).astype(np.int64)
        slots = np.minimum(named, self.capacity - 1)
        generations = self._generation[slots]
        fits = (slots == named) & (generations == tokens >> _SLOT_BITS) & (generations & 1 == 1)
        order = np.arange(len(tokens))
        # Only those count that fit: a stray must not hide the token of the slot that it seems to name.
        self._last_named[slots[fits]] = order[fits]
        fits &= self._last_named[slots] == order
        return slots, fits

    def release(self, slots: NDArray[np.int64]) -> None:
        """Make slots free whose reads have completed."""
        self._generation[slots] += np.uint32(1)
        self._free_slots[self.free : self.free + len(slots)] = slots
        self.free += len(slots)
