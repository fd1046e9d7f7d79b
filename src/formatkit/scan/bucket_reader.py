"""Reads buckets in any process."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, BoundLiteralPredicate, BoundPredicate, BoundSetPredicate, Or
from pyiceberg.schema import Schema

from formatkit.batches.arrow import arrow_schema
from formatkit.contract.format import FormatPlugin
from formatkit.contract.results import BatchStream
from formatkit.errors import ConfigurationError, FormatNotRegisteredError, UnsupportedError
from formatkit.kernel import FileRequest
from formatkit.registry import FormatRegistry, default_registry
from formatkit.scan.options import Tuning
from formatkit.scan.plan import Plan
from formatkit.scan.reading import TaskReader
from formatkit.scan.running import Run
from formatkit.scan.streams import stream_tasks

if TYPE_CHECKING:
    from formatkit.scan.buckets import Bucket

__all__ = ["BucketReader", "fingerprint_of"]

B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class BucketReader(Generic[B]):
    """All that the buckets of one scan have in common. Made once a scan, and survives pickling.

    Attributes:
        reader: Reads tasks.
        tuning: How a bucket is read.
        limit: The most rows of a bucket.
        fingerprint: Tells the scan.
    """

    reader: TaskReader[B] = field(repr=False)
    tuning: Tuning
    limit: int | None
    fingerprint: str

    @property
    def schema(self) -> Schema:
        """The columns of the batches."""
        return self.reader.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the batches as Arrow has them."""
        return arrow_schema(self.schema, self.reader.request.dictionary_columns)

    def batches(self, bucket: Bucket, counters: Counter[str] | None = None) -> BatchStream[B]:
        """The rows of a bucket.

        Args:
            bucket: One of the buckets of the scan that this reader was made by, or of one that is the same.
            counters: Where to add what the readers counted, once the stream ends.

        Raises:
            ConfigurationError: The bucket is of another scan.
        """
        if bucket.fingerprint != self.fingerprint:
            message = (
                f"bucket {bucket.index} is of scan {bucket.fingerprint}, and this reader is of scan "
                f"{self.fingerprint}; take the reader from the scan that made the buckets"
            )
            raise ConfigurationError(message, bucket=bucket.fingerprint, reader=self.fingerprint)

        def add_counters(run: Run) -> None:
            if counters is not None:
                counters.update(run.counters)

        return stream_tasks(self.reader, bucket.tasks, self.tuning, limit=self.limit, when_done=add_counters)

    def __reduce__(self) -> tuple[Any, ...]:
        plugins = self.reader.plugins
        batch_type = self.reader.operations.batch_type
        installed = tuple(name for name, plugin in plugins.items() if _is_installed(name, plugin))
        others = {name: plugin for name, plugin in plugins.items() if name not in installed}
        for thing in (*others.values(), self.reader.operations):
            _check_that_it_travels(thing)
        reader = replace(self.reader, plugins=others)
        return _rebuild, (reader, batch_type, installed, self.tuning, self.limit, self.fingerprint)


def _rebuild(
    reader: TaskReader[B], batch_type: type[B], installed: tuple[str, ...], tuning: Tuning, limit: int | None, scan: str
) -> BucketReader[B]:
    """A reader with the plugins that are installed here, and those that came with it."""
    found = {name: default_registry().plugin(name, batch_type) for name in installed}
    return BucketReader(replace(reader, plugins={**reader.plugins, **found}), tuning, limit, scan)


def _is_installed(file_format: str, plugin: FormatPlugin[Any]) -> bool:
    """Whether another process finds the very same plugin by its entry point."""
    try:
        here = default_registry().plugin(file_format, plugin.batch_type)
        there = _entry_points().plugin(file_format, plugin.batch_type)
    except FormatNotRegisteredError:
        return False
    return here is plugin and type(there) is type(plugin)


@cache
def _entry_points() -> FormatRegistry:
    """What is installed, without what was registered in the default registry of this process."""
    return FormatRegistry.from_entry_points()


def _check_that_it_travels(thing: object) -> None:
    try:
        pickle.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        message = (
            f"{type(thing).__qualname__} cannot be sent to another process: {error}; install it with an entry point, "
            "or let it survive pickling"
        )
        raise UnsupportedError(message) from error


def fingerprint_of(request: FileRequest, plan: Plan, limit: int | None) -> str:
    """The same for scans of the same rows in the same form, in whatever process; different for any others."""
    digest = blake2b(digest_size=8)
    facts = (
        plan.table,
        plan.snapshot_id,
        *(plan.parts or ()),
        limit,
        repr(request.schema),
        repr(request.table_schema),
        repr(request.name_mapping),
        request.missing_ids,
        request.prefer_partition_constants,
        request.keep_deleted,
        request.batch_rows,
        sorted(request.dictionary_columns),
        sorted(request.properties.items()),
        *_predicate_facts(request.predicate),
    )
    for fact in facts:
        digest.update(repr(fact).encode(errors="surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def _predicate_facts(predicate: BooleanExpression) -> Iterator[Any]:
    """A predicate in prefix order, with sets sorted."""
    waiting = [predicate]
    while waiting:
        each = waiting.pop()
        yield type(each).__name__
        match each:
            case And() | Or():
                waiting += (each.right, each.left)
            case BoundPredicate():
                yield each.term.ref().field.field_id
                if isinstance(each, BoundSetPredicate):
                    yield sorted(map(repr, each.value_set))
                elif isinstance(each, BoundLiteralPredicate):
                    yield repr(each.literal)
