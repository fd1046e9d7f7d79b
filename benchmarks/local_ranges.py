"""Range reads of local files, cold and warm: io_uring against everything else that Python offers.

Run as: python -m benchmarks.local_ranges [--rounds 9] [--folder FOLDER] [--only WORD …] [--cases WORD …]. Prints tables
in Markdown: how many times as fast as a loop of preadv each contender is, in the median of rounds in which all take
turns (and, in brackets, by the fastest run of each), and for each contender which cases it loses. Time is wall-clock
time from opening the files to having touched every page of the result; in the case whose ranges are "summed up", to
having computed a checksum of each range as it comes, which is the least that a decoder does. Cold means that the files'
pages were dropped before each run, which is checked with mincore.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import mmap
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from isal import isal_zlib
from obstore.store import LocalStore

from formatkit.contract.storage import ByteRange
from formatkit.io import open_source
from formatkit.io.uring import UringFile, UringReader

_PAGE = 4096
_SEED = 20
_BASELINE = "preadv loop"
_LARGE = 64 << 20
_DROPPING_ATTEMPTS = 200

Plan = dict[Path, list[ByteRange]]
Contender = Callable[[Plan], Iterable[Any]]


@dataclass(frozen=True)
class Case:
    """Ranges to read. They are held until all of them are there, or summed up one by one as they come."""

    name: str
    plan: Plan
    held: bool = True

    @property
    def total(self) -> int:
        return sum(span.length for ranges in self.plan.values() for span in ranges)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", default=None, help="a folder on the disk to measure")
    parser.add_argument("--only", nargs="*", default=[], help="words of the contenders to measure besides the loop")
    parser.add_argument("--cases", nargs="*", default=[], help="words of the cases to measure")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, _contenders(Path(folder)) as contenders:
        chosen = {
            name: run
            for name, run in contenders.items()
            if name == _BASELINE or not options.only or any(word in name for word in options.only)
        }
        cases = [
            case
            for case in _cases(Path(folder))
            if not options.cases or any(word in case.name for word in options.cases)
        ]
        os.sync()
        times = {
            (case.name, cold): _race(case, chosen, options.rounds, cold) for cold in (True, False) for case in cases
        }
    _report(times, list(chosen), cases)


def _cases(folder: Path) -> list[Case]:
    small = [_random_file(folder / f"small-{number}", 32 << 20) for number in range(8)]
    large = _random_file(folder / "large", 128 << 20)
    return [
        Case("64 × 64 KB, one file", {large: _scattered(large, 64, 64 << 10)}),
        Case("1024 × 4 KB, 8 files", {path: _scattered(path, 128, 4 << 10) for path in small}),
        _column_chunks(folder / "wide.parquet"),
        Case("128 × 1 MB, 8 files", {path: _scattered(path, 16, 1 << 20) for path in small}),
        Case("128 × 1 MB, summed up", {path: _scattered(path, 16, 1 << 20) for path in small}, held=False),
    ]


def _random_file(path: Path, size: int) -> Path:
    path.write_bytes(np.random.default_rng(_SEED).bytes(size))
    return path


def _scattered(path: Path, count: int, length: int) -> list[ByteRange]:
    stride = path.stat().st_size // count
    picks = random.Random(f"{_SEED} {path.name}")
    return [ByteRange(stride * at + picks.randrange(max(1, stride - length)), length) for at in range(count)]


def _column_chunks(path: Path) -> Case:
    """Twenty columns of ten row groups, out of a table of a thousand columns."""
    numbers = np.random.default_rng(_SEED)
    widths = numbers.integers(1, 17, 1000)
    schema = pa.schema([(f"c{number}", pa.binary(int(width) * 4)) for number, width in enumerate(widths)])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for _ in range(10):
            arrays = [
                pa.Array.from_buffers(kind, 1000, [None, pa.py_buffer(numbers.bytes(1000 * kind.byte_width))])
                for kind in schema.types
            ]
            writer.write_table(pa.table(arrays, schema=schema))
    footer = pq.read_metadata(path)
    columns = sorted(random.Random(_SEED).sample(range(1000), 20))
    chunks = [footer.row_group(group).column(column) for group in range(10) for column in columns]
    ranges = [ByteRange(chunk.data_page_offset, chunk.total_compressed_size) for chunk in chunks]
    return Case("200 column chunks of 4–64 KB", {path: ranges})


def _race(case: Case, contenders: dict[str, Contender], rounds: int, cold: bool) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    for _ in range(rounds if case.total < _LARGE else -(-rounds // 4)):
        random.shuffle(order)
        for name in order:
            if cold:
                for path in case.plan:
                    _make_cold(path)
            else:
                _consume(contenders[_BASELINE](case.plan), held=False)
            started = time.perf_counter()
            consumed = _consume(contenders[name](case.plan), held=case.held)
            times[name].append(time.perf_counter() - started)
            assert consumed == case.total, name
    return times


def _consume(buffers: Iterable[Any], *, held: bool) -> int:
    """Use all buffers; how many bytes they have. None of them lives on, because mapped pages cannot be dropped."""
    total = 0
    for buffer in list(buffers) if held else buffers:
        if held:
            np.frombuffer(buffer, dtype=np.uint8)[::_PAGE].sum()
        else:
            isal_zlib.crc32(buffer)
        total += memoryview(buffer).nbytes
    return total


def _make_cold(path: Path) -> None:
    """Drop the pages; those that the kernel still reads ahead cannot be dropped yet."""
    for _ in range(_DROPPING_ATTEMPTS):
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        resident = _resident(path)
        if not resident:
            return
        time.sleep(0.02)
    raise SystemExit(f"{resident:.0%} of {path} stay in memory; choose a --folder on a disk")


def _resident(path: Path) -> float:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = np.frombuffer(mapped, dtype=np.uint8)
        states = np.zeros(-(-len(view) // _PAGE), dtype=np.uint8)
        failed = ctypes.CDLL(None).mincore(
            ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(view)), ctypes.c_void_p(states.ctypes.data)
        )
        assert not failed
        del view
        return float((states & 1).mean())


@contextmanager
def _contenders(folder: Path) -> Iterator[dict[str, Contender]]:
    store = LocalStore(prefix=folder)
    with ThreadPoolExecutor(16) as pool, UringReader() as ring:
        yield {
            _BASELINE: _each(_preadv),
            "fadvise, then preadv": _each(_fadvise_then_preadv),
            "16 threads": lambda plan: _threads(plan, pool),
            "pyarrow read_at": _each(lambda path, ranges: _read_at(pa.OSFile(str(path)), ranges)),
            "memory map": _each(lambda path, ranges: _read_at(pa.memory_map(str(path)), ranges)),
            "obstore get_ranges": lambda plan: _obstore(plan, store),
            "ring": lambda plan: _ring(plan, ring, direct=False),
            "ring, O_DIRECT": lambda plan: _ring(plan, ring, direct=True),
            "auto": _auto,
        }


def _each(read: Callable[[Path, list[ByteRange]], Iterable[Any]]) -> Contender:
    return lambda plan: (buffer for path, ranges in plan.items() for buffer in read(path, ranges))


def _pread_one(descriptor: int, span: ByteRange) -> pa.Buffer:
    buffer = pa.allocate_buffer(span.length)
    assert os.preadv(descriptor, [memoryview(buffer)], span.offset) == span.length
    return buffer


def _preadv(path: Path, ranges: list[ByteRange]) -> Iterator[pa.Buffer]:
    with path.open("rb", buffering=0) as file:
        for span in ranges:
            yield _pread_one(file.fileno(), span)


def _fadvise_then_preadv(path: Path, ranges: list[ByteRange]) -> Iterator[pa.Buffer]:
    with path.open("rb", buffering=0) as file:
        for offset, length in ranges:
            os.posix_fadvise(file.fileno(), offset, length, os.POSIX_FADV_WILLNEED)
        for span in ranges:
            yield _pread_one(file.fileno(), span)


def _threads(plan: Plan, pool: ThreadPoolExecutor) -> Iterator[pa.Buffer]:
    files = [path.open("rb", buffering=0) for path in plan]
    try:
        work = [(file.fileno(), span) for file, ranges in zip(files, plan.values(), strict=True) for span in ranges]
        yield from pool.map(lambda each: _pread_one(*each), work)
    finally:
        for file in files:
            file.close()


def _read_at(file: pa.NativeFile, ranges: Sequence[ByteRange]) -> Iterator[Any]:
    with file:
        file.seek(0)
        for offset, length in ranges:
            yield file.get_stream(offset, length).read_buffer(length)


def _obstore(plan: Plan, store: LocalStore) -> list[Any]:
    async def everything() -> list[Any]:
        answers = await asyncio.gather(
            *(
                obstore.get_ranges_async(
                    store, path.name, starts=[span.offset for span in ranges], lengths=[span.length for span in ranges]
                )
                for path, ranges in plan.items()
            )
        )
        return [buffer for answer in answers for buffer in answer]

    if len(plan) > 1:
        return asyncio.run(everything())
    ((path, ranges),) = plan.items()
    return list(
        obstore.get_ranges(
            store, path.name, starts=[span.offset for span in ranges], lengths=[span.length for span in ranges]
        )
    )


def _ring(plan: Plan, ring: UringReader, *, direct: bool) -> Iterator[pa.Buffer]:
    answers = []
    for path, ranges in plan.items():
        with UringFile(path, direct=direct) as file:
            answers.append(ring.fetch(file, ranges))
    for answer in answers:
        yield from answer.result()


def _auto(plan: Plan) -> Iterator[memoryview]:
    sources = [(open_source(path), ranges) for path, ranges in plan.items()]
    for source, ranges in sources:
        source.prefetch(ranges)
    for source, ranges in sources:
        with closing(source):
            for offset, length in ranges:
                yield source.read(offset, length)


def _report(times: dict[tuple[str, bool], dict[str, list[float]]], contenders: list[str], cases: list[Case]) -> None:
    ratios = {race: {name: _ratios(measured, name) for name in contenders} for race, measured in times.items()}
    for cold in (True, False):
        print(f"\n### {'Cold' if cold else 'Warm'}\n\n| | {' | '.join(case.name for case in cases)} |")
        print("| --- |" + " ---: |" * len(cases))
        for name in contenders:
            print(f"| {name} | " + " | ".join(_cell(ratios[case.name, cold], name) for case in cases) + " |")
        milliseconds = (statistics.median(times[case.name, cold][_BASELINE]) * 1000 for case in cases)
        print("| the loop, ms | " + " | ".join(f"{each:.1f}" for each in milliseconds) + " |")
    print()
    for name in contenders[1:]:
        lost = [f"{'cold' if cold else 'warm'} {case}" for (case, cold), row in ratios.items() if row[name][0] < 1]
        print(f"- {name}: slower than the loop in {len(lost)} of {len(ratios)}{': ' if lost else ''}{'; '.join(lost)}")


def _ratios(measured: dict[str, list[float]], name: str) -> tuple[float, float]:
    """In the median of the rounds, and by the fastest run of each, which the machine's other work disturbs least."""
    rounds = zip(measured[_BASELINE], measured[name], strict=True)
    return statistics.median(base / own for base, own in rounds), min(measured[_BASELINE]) / min(measured[name])


def _cell(row: dict[str, tuple[float, float]], name: str) -> str:
    median, best = row[name]
    text = f"{median:.2f}"
    return f"**{text}** ({best:.2f})" if median == max(row.values())[0] else f"{text} ({best:.2f})"


if __name__ == "__main__":
    main()
