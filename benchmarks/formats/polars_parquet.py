"""Parquet into Polars frames: formatkit against bare Polars, in one process, interleaved, by processor time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import formatkit

ROWS = 2_000_000
ROUNDS = 7


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "data.parquet")
        _write(path)
        where = "k = 7 and f < 0.5"
        condition = (pl.col("k") == 7) & (pl.col("f") < 0.5)
        _compare("all columns", lambda: _drain_lazy(pl.scan_parquet(path)), lambda: _drain(path))
        _compare(
            "one column", lambda: _drain_lazy(pl.scan_parquet(path).select("id")), lambda: _drain(path, select="id")
        )
        _compare("filter", lambda: _drain_lazy(pl.scan_parquet(path).filter(condition)), lambda: _drain(path, where))


def _write(path: Path) -> None:
    chance = np.random.default_rng(1)
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "f": chance.random(ROWS),
            "s": [f"v{n % 1000}" for n in range(ROWS)],
            "t": pa.array(chance.integers(0, 10**15, ROWS)).cast(pa.timestamp("us", "UTC")),
            "k": chance.integers(0, 100, ROWS).astype(np.int32),
        }
    )
    pq.write_table(table, path, row_group_size=ROWS // 4, compression="zstd")


def _drain_lazy(lazy: pl.LazyFrame) -> None:
    for _ in lazy.collect_batches(chunk_size=32_768):
        pass


def _drain(path: Path, where: str | None = None, select: str = "*") -> None:
    with formatkit.read_file(str(path), where, select, threads=1, batch_type=pl.DataFrame).to_batches() as frames:
        for _ in frames:
            pass


def _compare(name: str, bare: Callable[[], None], ours: Callable[[], None]) -> None:
    times: dict[Callable[[], None], list[float]] = {bare: [], ours: []}
    for _ in range(ROUNDS):
        for run, seconds in times.items():
            start = time.process_time()
            run()
            seconds.append(time.process_time() - start)
    least = {run: min(seconds) for run, seconds in times.items()}
    print(f"{name:12} Polars {least[bare]:.3f} s, formatkit {least[ours]:.3f} s, {least[ours] / least[bare]:.2f} x")


if __name__ == "__main__":
    main()
