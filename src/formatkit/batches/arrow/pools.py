"""Where the memory of decoded batches comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import pyarrow as pa

from formatkit.errors import ConfigurationError

__all__ = ["MEMORY_POOL", "memory_pool"]

MEMORY_POOL = "read.arrow.memory-pool"
"""A property of reads: ``default``, ``system``, ``jemalloc`` or ``mimalloc``."""

_MOST_LEARNT_BYTES = (32 << 20) - (8 << 10)


@cache
def _system_pool() -> pa.MemoryPool:
    """The pool of the system, which is taught to keep what is freed.

    GNU's allocator returns the end of a heap once twice as much is free there as it has ever seen in one freed block of
    up to 32 MiB. Clearing the pages that it gets back takes longer than much of decoding. This block costs nothing,
    because nobody writes to it.
    """
    pool = pa.system_memory_pool()
    pa.allocate_buffer(_MOST_LEARNT_BYTES, pool)
    return pool


_POOLS: dict[str, Callable[[], pa.MemoryPool]] = {
    "default": pa.default_memory_pool,
    "system": _system_pool,
    "jemalloc": pa.jemalloc_memory_pool,
    "mimalloc": pa.mimalloc_memory_pool,
}


def memory_pool(properties: Mapping[str, str]) -> pa.MemoryPool | None:
    """The pool that the properties of a read ask for; None for the default of the process."""
    name = properties.get(MEMORY_POOL, "default")
    try:
        return None if name == "default" else _POOLS[name]()
    except (KeyError, NotImplementedError) as error:
        message = (
            f"{MEMORY_POOL} is {name!r}; this pyarrow knows {', '.join(('default', *pa.supported_memory_backends()))}"
        )
        raise ConfigurationError(message) from error
