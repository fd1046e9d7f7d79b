"""Decodes stripes, one at a time: pyarrow makes whole stripes of columns, which are then handed out in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import IOBase
from typing import cast

import numpy as np
import pyarrow as pa
from pyarrow.orc import ORCFile
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import extract_field_ids
from pyiceberg.schema import Schema, index_by_id

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.arrow.predicate import compile_predicate
from formatkit.batches.arrow.types import Column
from formatkit.contract.storage import ByteSource
from formatkit.errors import UnsupportedError
from formatkit.formats.orc.arrays import conform
from formatkit.formats.orc.column_file import ColumnFiles, Timestamps
from formatkit.formats.orc.failures import corrupt, reading
from formatkit.formats.orc.projection import Projection, Wanted
from formatkit.formats.orc.pruning import StripeRead
from formatkit.formats.orc.segmented_file import SegmentedFile, StoredBytes, open_stored_bytes
from formatkit.formats.orc.stripes import UTC, StripeFooter, read_stripe_footer
from formatkit.formats.orc.tail import Kind, Stripe, Tail
from formatkit.formats.orc.timestamps import holds_timestamps, join_timestamps, value_counts

__all__ = ["decode"]

_OUT_OF_RANGE = "out of range for nanosecond"
_READ_AT_ONCE = 64 * 1024 * 1024


def decode(
    source: ByteSource,
    tail: Tail,
    projection: Projection,
    schema: Schema,
    predicate: BooleanExpression,
    reads: Sequence[StripeRead],
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """The rows of the stripes for which `predicate` is true, in file order.

    Args:
        source: The file.
        tail: Its tail.
        projection: What to decode.
        schema: The same as a schema; the predicate is bound to it.
        predicate: Bound, and free of `Not`.
        reads: The stripes.
        batch_rows: No batch has more rows than this.
    """
    if any(one.stored for one in projection.wanted):
        source.prefetch([read.stripe.footer for read in reads])
    with reading(tail.location), ExitStack() as opened:
        stripes = _Stripes(_ColumnDecoder(source, tail, opened), projection, schema, predicate)
        for read in reads:
            batch = stripes.all_rows(read.stripe) if read.all_match else stripes.matching_rows(read.stripe)
            if batch is not None:
                for start in range(0, batch.num_rows, batch_rows):
                    yield batch.slice(start, batch_rows)
            # Two stripes at once are held only if the caller does.
            del batch


class _Stripes:
    """One read of a file: some of its columns, for the rows that match."""

    def __init__(
        self, decoder: _ColumnDecoder, projection: Projection, schema: Schema, predicate: BooleanExpression
    ) -> None:
        self._projection = projection
        self._decoder = decoder
        self._everything = range(len(projection.wanted))
        self._keep = ArrowBatch().filter(schema, predicate)
        ids = extract_field_ids(predicate)
        fields = enumerate(schema.fields)
        self._tested = [number for number, field in fields if not ids.isdisjoint(index_by_id(Schema(field)))]
        self._marks = compile_predicate(Schema(*(schema.fields[number] for number in self._tested)), predicate)
        # Nothing is gained by testing first what is not decoded, or if there is nothing else.
        stored = [number for number, one in enumerate(projection.wanted) if one.stored]
        self._tests_first = bool(self._tested) and set(self._tested) < set(stored)

    def all_rows(self, stripe: Stripe) -> pa.RecordBatch:
        return self._batch(stripe, self._decoder.columns(stripe, self._projection.wanted))

    def matching_rows(self, stripe: Stripe) -> pa.RecordBatch | None:
        """The rows that match, or None; columns that are not tested are decoded only if there are any."""
        if not self._tests_first:
            return self._keep(self.all_rows(stripe))
        wanted = self._projection.wanted
        columns = self._decoder.columns(stripe, [wanted[number] for number in self._tested])
        schema = self._projection.schema
        fields = [schema.field(number) for number in self._tested]
        if self._marks(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))).true_count == 0:
            return None
        rest = [number for number in self._everything if number not in self._tested]
        columns += self._decoder.columns(stripe, [wanted[number] for number in rest])
        places = np.argsort(self._tested + rest)
        return self._keep(self._batch(stripe, [columns[place] for place in places]))

    def _batch(self, stripe: Stripe, columns: list[Column]) -> pa.RecordBatch:
        if self._projection.positions:
            columns.append(pa.array(np.arange(stripe.first_row, stripe.first_row + stripe.rows)))
        if not columns:
            # Only a batch that once had a column remembers how many rows it has.
            return pa.record_batch([pa.nulls(stripe.rows)], names=[""]).select([])
        return pa.RecordBatch.from_arrays(columns, schema=self._projection.schema)


class _ColumnDecoder:
    """Decodes columns of any stripe of a file, which stays open as long as `opened`."""

    def __init__(self, source: ByteSource, tail: Tail, opened: ExitStack) -> None:
        self._source = source
        self._tail = tail
        self._opened = opened
        self._stored: StoredBytes | None = None
        self._files: dict[tuple[Timestamps, tuple[int, ...]], ColumnFiles] = {}
        self._footers: dict[int, StripeFooter] = {}
        self._in_parts = False
        self._room: pa.Buffer | None = None

    def columns(self, stripe: Stripe, wanted: Sequence[Wanted]) -> list[Column]:
        """The columns in their canonical form, one for each that is wanted."""
        stored = [one for one in wanted if one.stored]
        decoded = iter(self._decoded(stripe, stored) if stored else ())
        return [conform(one, next(decoded)) if one.stored else pa.nulls(stripe.rows, one.arrow) for one in wanted]

    def _decoded(self, stripe: Stripe, wanted: Sequence[Wanted]) -> list[Column]:
        if not (self._in_parts and any(map(holds_timestamps, wanted))):
            try:
                return self._arrays(stripe, wanted, Timestamps.WHOLE)
            except pa.ArrowInvalid as error:
                if _OUT_OF_RANGE not in str(error):
                    raise
            # One timestamp out of range announces others in the stripes to come.
            self._in_parts = True
        return self._decoded_in_parts(stripe, wanted)

    def _decoded_in_parts(self, stripe: Stripe, wanted: Sequence[Wanted]) -> list[Column]:
        self._require_utc(stripe, wanted)
        seconds = self._arrays(stripe, wanted, Timestamps.SECONDS)
        timed = {number: one for number, one in enumerate(wanted) if holds_timestamps(one)}
        counts: dict[int, int] = {}
        for number, one in timed.items():
            counts |= value_counts(one, seconds[number])
        nanos = self._arrays(stripe, list(timed.values()), Timestamps.NANOS, counts)
        for (number, one), part in zip(timed.items(), nanos, strict=True):
            seconds[number] = join_timestamps(one, seconds[number], part)
        return seconds

    def _require_utc(self, stripe: Stripe, wanted: Sequence[Wanted]) -> None:
        zone = self._footer(stripe).timezone
        if zone != UTC and any(one.column.type.kind is Kind.TIMESTAMP for top in wanted for one in top.walk()):
            location = self._tail.location
            message = (
                f"{location}: stripe {stripe.index} holds timestamps outside the years 1677 to 2262 that were written "
                f"in the time zone {zone!r}; such timestamps are read only if they were written in UTC"
            )
            raise UnsupportedError(message, location=location)

    def _arrays(
        self, stripe: Stripe, wanted: Sequence[Wanted], timestamps: Timestamps, counts: Mapping[int, int] | None = None
    ) -> list[Column]:
        if self._stored is None:
            self._stored = self._opened.enter_context(open_stored_bytes(self._source))
        key = (timestamps, tuple(one.column.type_id for one in wanted))
        if key not in self._files:
            self._files[key] = ColumnFiles(self._tail, wanted, timestamps)
        file = SegmentedFile(self._files[key].build(stripe, self._footer(stripe), counts or {}), self._stored)
        try:
            batch = ORCFile(self._as_native(file)).read_stripe(0)
        except Exception:
            if file.failure is not None:
                raise file.failure from None
            raise
        if batch.num_rows != stripe.rows:
            found = f"promises {stripe.rows} rows and holds {batch.num_rows}"
            raise corrupt(self._tail.location, f"stripe {stripe.index} {found}")
        columns: list[Column] = batch.columns
        return columns

    def _footer(self, stripe: Stripe) -> StripeFooter:
        if stripe.index not in self._footers:
            self._footers = {stripe.index: read_stripe_footer(self._source, self._tail, stripe)}
        return self._footers[stripe.index]

    def _as_native(self, file: SegmentedFile) -> pa.NativeFile:
        """The file as pyarrow takes it, read at once if it is not huge, since calls back into Python take their time.

        The memory serves one stripe after the other: what is decoded holds no part of it.
        """
        if file.size > _READ_AT_ONCE:
            return pa.PythonFile(cast("IOBase", file), mode="r")
        if self._room is None or self._room.size < file.size:
            self._room = pa.allocate_buffer(file.size)
        file.read_into(memoryview(self._room).cast("B")[: file.size])
        return pa.BufferReader(self._room.slice(0, file.size))
