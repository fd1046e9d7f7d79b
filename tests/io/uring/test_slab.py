"""Slots: a token fits only the read that it was made for."""

from __future__ import annotations

import numpy as np
import pytest

from formatkit.io.uring.slab import Slab

pytestmark = pytest.mark.usefixtures("needs_no_ring")


def take(slab: Slab, count: int) -> np.ndarray:
    reads = np.arange(count)
    return slab.take(3, reads, np.full(count, 10), np.full(count, 10))


def test_tokens_find_the_slots_of_their_reads() -> None:
    slab = Slab(8)
    tokens = take(slab, 5)
    slots, fits = slab.find(tokens)
    assert fits.all()
    assert slab.read[slots].tolist() == [0, 1, 2, 3, 4]
    assert slab.request[slots].tolist() == [3] * 5
    assert slab.free == 3


def test_a_late_token_does_not_fit_the_slot_when_it_is_used_again() -> None:
    slab = Slab(2)
    old = take(slab, 2)
    slab.release(slab.find(old)[0])
    assert not slab.find(old)[1].any()
    new = take(slab, 2)
    assert not slab.find(old)[1].any()
    assert slab.find(new)[1].all()


def test_of_a_token_that_comes_twice_one_fits() -> None:
    slab = Slab(4)
    tokens = take(slab, 2)
    assert slab.find(np.concatenate([tokens, tokens]))[1].sum() == 2


@pytest.mark.parametrize("token", [0, 1, 4, 1 << 32, (1 << 32) | 7, (1 << 64) - 1])
def test_a_token_from_nowhere_does_not_fit(token: int) -> None:
    slab = Slab(4)
    take(slab, 1)
    slots, fits = slab.find(np.array([token], dtype=np.uint64))
    assert not fits.any()
    assert 0 <= slots[0] < 4


@pytest.mark.parametrize("token", [4, (1 << 64) - 1])
def test_a_token_from_nowhere_hides_no_other(token: int) -> None:
    slab = Slab(4)
    tokens = np.append(take(slab, 4), np.uint64(token))
    assert slab.find(tokens)[1].tolist() == [True] * 4 + [False]


@pytest.mark.parametrize("stray", [3, 99, (1 << 64) - 1])
def test_a_stray_token_does_not_hide_the_one_of_the_slot_that_it_seems_to_name(stray: int) -> None:
    slab = Slab(4)
    tokens = take(slab, 4)
    _, fits = slab.find(np.append(tokens, np.uint64(stray)))
    assert fits.tolist() == [True] * 4 + [False]


def test_generations_wrap_around() -> None:
    slab = Slab(1)
    slab._generation[:] = np.uint32(0xFFFF_FFFE)
    tokens = take(slab, 1)
    assert slab.find(tokens)[1].all()
    slab.release(slab.find(tokens)[0])
    assert not slab.find(tokens)[1].any()
    assert slab.find(take(slab, 1))[1].all()
