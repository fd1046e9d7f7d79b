"""What a caller may ask of a scan, whether of a table or of a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pyiceberg.expressions import BooleanExpression

from formatkit.contract.options import DEFAULT_BATCH_ROWS
from formatkit.errors import ConfigurationError
from formatkit.io import IoRuntime, current_runtime
from formatkit.kernel import MissingIds
from formatkit.registry import FormatRegistry, default_registry

__all__ = ["DEFAULT_BUFFER_BYTES", "ScanOptions", "Tuning"]

B = TypeVar("B")

DEFAULT_BUFFER_BYTES = 8 << 20
_MOST_THREADS = 8


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How a scan runs, as opposed to what it returns."""

    threads: int
    buffer_bytes: int = DEFAULT_BUFFER_BYTES


@dataclass(frozen=True, kw_only=True)
class ScanOptions(Generic[B]):
    """The arguments of `scan` and `read_file` that mean the same to both."""

    batch_type: type[B]
    where: str | BooleanExpression | None = None
    select: str | Iterable[str] = ("*",)
    limit: int | None = None
    case_sensitive: bool = True
    registry: FormatRegistry | None = None
    batch_rows: int = DEFAULT_BATCH_ROWS
    threads: int | None = None
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    dictionary_columns: str | Iterable[str] = ()
    prefer_partition_constants: bool = False
    missing_ids: MissingIds = "error"
    properties: Mapping[str, str] = field(default_factory=dict)
    runtime: IoRuntime | None = None

    def __post_init__(self) -> None:
        for name, least in (("limit", 0), ("batch_rows", 1), ("threads", 1), ("buffer_bytes", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                message = f"{name} must be at least {least}, not {value}"
                raise ConfigurationError(message)
        if self.missing_ids not in ("error", "by-name", "by-position"):
            message = f'missing_ids must be "error", "by-name" or "by-position", not {self.missing_ids!r}'
            raise ConfigurationError(message)

    @property
    def formats(self) -> FormatRegistry:
        return self.registry if self.registry is not None else default_registry()

    @property
    def io_runtime(self) -> IoRuntime:
        """Where storage calls run. Those who read may be other threads than this one, which has a current runtime."""
        return self.runtime or current_runtime()

    @property
    def tuning(self) -> Tuning:
        return Tuning(threads=self.threads or min(_cores(), _MOST_THREADS), buffer_bytes=self.buffer_bytes)


def _cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
