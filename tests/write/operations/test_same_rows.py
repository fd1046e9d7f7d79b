from __future__ import annotations

import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from formatkit.batches.arrow import ArrowBatch
from formatkit.tck.histories import schemas
from formatkit.tck.rows import comparable, to_arrow
from formatkit.tck.strategies import rows
from formatkit.write.operations.same_rows import same_rows


@given(st.data())
def test_rows_are_the_same_if_all_their_values_are(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    pool = data.draw(rows(schema, min_size=1, max_size=6, variety=2))
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(pool), st.sampled_from(pool)), min_size=1, max_size=8))
    skipped = data.draw(st.integers(0, len(pairs) - 1))
    evolve = ArrowBatch().evolve(schema, schema, {})
    left, right = (
        evolve(to_arrow(schema, side).combine_chunks().to_batches()[0]).slice(skipped)
        for side in zip(*pairs, strict=True)
    )
    expected = [one == other for one, other in (comparable(pair) for pair in pairs[skipped:])]
    assert same_rows(left, right).tolist() == expected


def test_nan_equals_nan_and_zeros_differ_by_their_sign() -> None:
    left, right = [math.nan, 0.0, -0.0, None, 1.0], [math.nan, -0.0, -0.0, None, None]
    batches = (pa.record_batch({"x": pa.array(values, pa.float64())}) for values in (left, right))
    assert same_rows(*batches).tolist() == [True, False, True, True, False]
