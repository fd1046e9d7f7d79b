"""Files of other writers, with the settings that make trouble, give the rows that went in, whatever is asked."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from support.corpus.answers import wrong_answers
from support.corpus.arrow_writers import (
    DUCKDB,
    LANCE,
    POLARS_AVRO,
    POLARS_IPC,
    POLARS_PARQUET,
    PYARROW_IPC,
    PYARROW_ORC,
    PYARROW_PARQUET,
    VORTEX,
)
from support.corpus.avro_writers import AVRO_JAVA, FASTAVRO
from support.corpus.orc_writers import ORC_JAVA, PYORC
from support.corpus.pandas_writers import FASTPARQUET
from support.corpus.parquet_mr import PARQUET_MR
from support.corpus.settings import Settings
from support.corpus.writer import Writer

WRITERS = [
    PARQUET_MR,
    PYARROW_PARQUET,
    DUCKDB,
    POLARS_PARQUET,
    FASTPARQUET,
    ORC_JAVA,
    PYORC,
    PYARROW_ORC,
    AVRO_JAVA,
    FASTAVRO,
    POLARS_AVRO,
    PYARROW_IPC,
    POLARS_IPC,
    VORTEX,
    LANCE,
]
CASES = [
    pytest.param(writer, chosen, number, id=f"{writer.name}-{number}")
    for writer in WRITERS
    for number, chosen in enumerate(writer.covering())
]
# Each example is a file that is asked many questions: one a writer by default, 100 in `make fuzz`.
SELDOM = settings(max_examples=max(1, settings.default.max_examples // 50))  # type: ignore[union-attr]


@pytest.mark.parametrize(("writer", "chosen", "seed"), CASES)
def test_every_question_is_answered_by_the_rows_that_went_in(
    writer: Writer, chosen: Settings, seed: int, tmp_path: Path
) -> None:
    assert wrong_answers(writer, chosen, seed, tmp_path) == [], chosen


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)
@SELDOM
@given(data=st.data())
def test_random_settings_change_no_answer(writer: Writer, data: st.DataObject) -> None:
    chosen = data.draw(writer.random_settings(), label="settings")
    seed = data.draw(st.integers(0, 10_000), label="seed")
    note(str(chosen))
    with tempfile.TemporaryDirectory() as folder:
        assert wrong_answers(writer, chosen, seed, Path(folder), limit=60) == []
