"""Where the memory of decoded batches comes from, and whose threads decode them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from formatkit.errors import ConfigurationError

__all__ = ["MEMORY_POOL", "USE_THREADS", "memory_pool", "uses_threads"]

MEMORY_POOL = "read.arrow.memory-pool"
"""A property of reads: ``default``, ``system``, ``jemalloc`` or ``mimalloc``."""

USE_THREADS = "read.arrow.use-threads"
"""A property of reads: ``true`` if Arrow's own threads may decode columns side by side, ``false`` if not."""

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


def uses_threads(properties: Mapping[str, str]) -> bool:
    """Whether the properties of a read allow Arrow's threads; they do not if they say nothing."""
    value = properties.get(USE_THREADS, "false")
    if value not in ("true", "false"):
        raise ConfigurationError(f"{USE_THREADS} is {value!r}; it can be 'true' or 'false'")
    return value == "true"
