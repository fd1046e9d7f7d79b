"""Arrow as the batch type: `ArrowBatch` is the `DataBatch` that formatkit ships."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from formatkit.batches.arrow.types import arrow_field, arrow_schema, arrow_type

if TYPE_CHECKING:
    from formatkit.batches.arrow.batch import ArrowBatch
    from formatkit.batches.arrow.constants import column_of

__all__ = ["ArrowBatch", "arrow_field", "arrow_schema", "arrow_type", "column_of"]

# Arrow's allocator holds a lock while it makes its first arena. A process forked from another thread meanwhile would
# wait for that lock for ever.
pa.allocate_buffer(1)

# Loaded when they are first used, because they need pyarrow.compute, which takes long to load.
_HOMES = {"ArrowBatch": "formatkit.batches.arrow.batch", "column_of": "formatkit.batches.arrow.constants"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
