"""Where the memory of decoded batches comes from."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from formatkit.errors import ConfigurationError

__all__ = ["MEMORY_POOL", "memory_pool"]

MEMORY_POOL = "read.arrow.memory-pool"
"""A property of reads: ``default``, ``system``, ``jemalloc`` or ``mimalloc``."""

_POOLS = {
    "default": pa.default_memory_pool,
    "system": pa.system_memory_pool,
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
