"""Texts that are too long for one array of Arrow, whose offsets have 32 bits: batches of fewer rows come then."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

import formatkit

ROWS, TEXT_BYTES = 5_000, 450_000


def test_more_text_than_one_array_can_hold_comes_in_several_batches(tmp_path: Path) -> None:
    # Some gigabytes, in a process of its own: the peak of this one is inherited by those that other tests measure.
    process = multiprocessing.get_context("spawn").Process(target=_write_and_read, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == 0


def _write_and_read(folder: Path) -> None:
    # The files are small, because they have a dictionary with one text; what is decoded has more than 2 GiB.
    text = "x" * TEXT_BYTES
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), pa.array([text]))
    pq.write_table(pa.table({"id": range(ROWS), "text": texts}), folder / "long.parquet")
    with pyarrow.orc.ORCWriter(str(folder / "long.orc"), dictionary_key_size_threshold=1.0) as writer:
        for start in range(0, ROWS, 500):
            writer.write(pa.table({"id": range(start, start + 500), "text": [text] * 500}))
    for name in ("long.parquet", "long.orc"):
        for where, last in ((None, ROWS), (f"id < {ROWS - 1}", ROWS - 1)):
            found = 0
            read = formatkit.read_file(folder / name, where=where, batch_rows=ROWS, missing_ids="by-name", threads=1)
            for batch in read.to_batches():
                assert batch["id"].to_pylist() == list(range(found, found + batch.num_rows))
                assert batch["text"][batch.num_rows - 1].as_py() == text
                found += batch.num_rows
                del batch
            assert found == last
