"""Decodes stripes, one at a time, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import closing

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import extract_field_ids
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import NestedField

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.arrow.predicate import compile_predicate
from formatkit.batches.arrow.rechunking import rechunked
from formatkit.batches.arrow.types import Column
from formatkit.contract.options import DEFAULT_BATCH_ROWS
from formatkit.contract.storage import ByteSource
from formatkit.formats.orc.column_decoding import ColumnDecoder, StripeColumns
from formatkit.formats.orc.failures import reading
from formatkit.formats.orc.projection import Projection, Wanted
from formatkit.formats.orc.pruning.stripes import StripeRead
from formatkit.formats.orc.stripe_reads import StripeReads
from formatkit.formats.orc.tail import Stripe, Tail

__all__ = ["decode"]

_STEP_ROWS = 65_536
_STEP_BYTES = 8 * 1024 * 1024
"""Batches of the usual size are cut from larger ones, of so many rows or stored bytes, because each has its price."""


def decode(
    source: ByteSource,
    tail: Tail,
    projection: Projection,
    schema: Schema,
    predicate: BooleanExpression,
    selected: Sequence[StripeRead],
    batch_rows: int,
    pool: pa.MemoryPool | None = None,
    threads: int = 1,
) -> Iterator[pa.RecordBatch]:
    """The rows of the stripes for which `predicate` is true, in file order. What they need is announced at once.

    Args:
        source: The file.
        tail: Its tail.
        projection: What to decode.
        schema: The same as a schema; the predicate is bound to it.
        predicate: Bound, and free of `Not`.
        selected: The stripes.
        batch_rows: No batch has more rows than this.
        pool: Where the memory of batches comes from.
        threads: On how many threads to decode.
    """
    rows = _MatchingRows(projection, schema, predicate)
    needs = [(read.stripe, projection.wanted if read.all_match else rows.needed_first) for read in selected]
    reads = StripeReads(source, tail, needs)
    return _decoded(ColumnDecoder(tail, reads, pool, threads), reads, rows, selected, batch_rows)


def _decoded(
    decoder: ColumnDecoder, reads: StripeReads, rows: _MatchingRows, selected: Sequence[StripeRead], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    with reading(reads.location), closing(reads):
        for read in selected:
            reads.begin()
            if read.all_match:
                yield from rows.all_of(read.stripe, decoder, batch_rows)
            else:
                yield from rechunked(rows.of(read.stripe, decoder, reads, batch_rows), batch_rows)


def _parts(stripe: Stripe, columns: StripeColumns, batch_rows: int) -> Iterator[tuple[int, int, list[Column]]]:
    """What is decoded at once: the number of its first row, how many rows it has, and the columns."""
    step = batch_rows
    # Who asks for smaller batches wants little to be decoded, such as the first rows only.
    if batch_rows >= DEFAULT_BATCH_ROWS:
        most = min(_STEP_ROWS, _STEP_BYTES * stripe.rows // max(stripe.data.length, 1))
        step = batch_rows * max(1, most // batch_rows)
    done = 0
    while done < stripe.rows:
        for rows, decoded in columns.parts(min(step, stripe.rows - done)):
            yield done, rows, decoded
            done += rows


class _MatchingRows:
    """Some columns of a file, for the rows that match.

    Attributes:
        needed_first: The columns without which it is not known whether a stripe has rows that match.
    """

    def __init__(self, projection: Projection, schema: Schema, predicate: BooleanExpression) -> None:
        self._projection = projection
        self._keep = ArrowBatch().filter(schema, predicate)
        ids = extract_field_ids(predicate)
        self._tested = [number for number, field in enumerate(schema.fields) if ids & _ids_of(field)] if ids else []
        self._marks = compile_predicate(Schema(*(schema.fields[number] for number in self._tested)), predicate)
        # Nothing is gained by testing first what is not decoded, or if there is nothing else.
        stored = [number for number, one in enumerate(projection.wanted) if one.stored]
        self._tests_first = bool(self._tested) and set(self._tested) < set(stored)
        self._rest = [number for number in range(len(projection.wanted)) if number not in self._tested]
        self.needed_first = self._wanted(self._tested) if self._tests_first else projection.wanted

    def all_of(self, stripe: Stripe, decoder: ColumnDecoder, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """All rows."""
        columns = decoder.columns(stripe, self._projection.wanted)
        for start, rows, decoded in _parts(stripe, columns, batch_rows):
            batch = self._batch(stripe, start, rows, decoded)
            yield from (batch.slice(first, batch_rows) for first in range(0, rows, batch_rows))

    def of(
        self, stripe: Stripe, decoder: ColumnDecoder, reads: StripeReads, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows that match; columns that are not tested are decoded only if there are any."""
        if not self._tests_first:
            yield from filter(_has_rows, map(self._keep, self.all_of(stripe, decoder, batch_rows)))
            return
        tested = decoder.columns(stripe, self.needed_first)
        rest: StripeColumns | None = None
        schema, places = self._projection.schema, np.argsort(self._tested + self._rest)
        fields = pa.schema([schema.field(number) for number in self._tested])
        passed_over: list[int] = []
        for start, rows, columns in _parts(stripe, tested, batch_rows):
            if self._marks(pa.RecordBatch.from_arrays(columns, schema=fields)).true_count == 0:
                passed_over.append(rows)
                continue
            if rest is None:
                reads.also(self._wanted(self._rest))
                rest = decoder.columns(stripe, self._wanted(self._rest), more=True)
            for some in passed_over:
                for _ in rest.parts(some):
                    pass
            passed_over.clear()
            done = 0
            for count, others in rest.parts(rows):
                both = [column.slice(done, count) for column in columns] + others
                yield self._keep(self._batch(stripe, start + done, count, [both[place] for place in places]))
                done += count

    def _wanted(self, numbers: Sequence[int]) -> tuple[Wanted, ...]:
        return tuple(self._projection.wanted[number] for number in numbers)

    def _batch(self, stripe: Stripe, start: int, rows: int, columns: list[Column]) -> pa.RecordBatch:
        if self._projection.positions:
            first = stripe.first_row + start
            columns.append(pa.array(np.arange(first, first + rows)))
        if not columns:
            # Only a batch that once had a column remembers how many rows it has.
            return pa.record_batch([pa.nulls(rows)], names=[""]).select([])
        return pa.RecordBatch.from_arrays(columns, schema=self._projection.schema)


def _has_rows(batch: pa.RecordBatch) -> bool:
    return batch.num_rows > 0


def _ids_of(field: NestedField) -> Set[int]:
    return index_by_id(Schema(field)).keys()
