"""Lance files through formatkit against Lance's own Arrow reader, interleaved in one process.

Run as: python -m benchmarks.formats.lance [rows], so that the library of the same name is found.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lance.file import LanceFileReader, LanceFileWriter
from pyiceberg.schema import Schema

from benchmarks.formats.goals import at_most
from benchmarks.formats.own_readers import SCHEMA, compare, drain, read, table, write
from formatkit.contract import ReadOptions
from formatkit.formats.lance.plugin import LanceFormat

DEFAULT_ROWS = 1024


def own(path: Path, batch_rows: int, columns: list[str] | None = None) -> int:
    return drain(LanceFileReader(str(path), columns=columns).read_all(batch_size=batch_rows).to_batches())


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path, bare = Path(folder, "formatkit.lance"), Path(folder, "bare.lance")
        data = table(rows)
        write(LanceFormat(), path, data)
        with LanceFileWriter(str(bare), data.schema) as writer:
            writer.write_batch(data)
        print(f"{rows} rows; formatkit {path.stat().st_size} bytes, Lance alone {bare.stat().st_size} bytes")
        whole = ReadOptions(projection=SCHEMA)
        full = {
            batch_rows: compare(
                f"full scan × {batch_rows:,} rows",
                lambda: read(LanceFormat(), path, whole),
                lambda batch_rows=batch_rows: own(path, batch_rows),
            )
            for batch_rows in (DEFAULT_ROWS, 16_384, 32_768)
        }
        # A file that Lance wrote has no checksums that could be compared.
        compare("full scan of a file of its own", lambda: read(LanceFormat(), bare, whole), lambda: own(bare, 16_384))
        two = Schema(SCHEMA.fields[1], SCHEMA.fields[4])
        compare(
            "two columns × 16,384 rows",
            lambda: read(LanceFormat(), path, ReadOptions(projection=two)),
            lambda: own(path, 16_384, ["amount", "name"]),
        )
        for batch_rows, ratios in full.items():
            what = f"its reader with batches of {batch_rows:,} rows{', its default' * (batch_rows == DEFAULT_ROWS)}"
            at_most(f"Lance full scan, time × {what}", ratios.wall, 1.05)
            at_most(f"Lance full scan, processor time × {what}", ratios.processor, 1.05)


if __name__ == "__main__":
    main()
