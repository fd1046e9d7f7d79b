"""Vortex through formatkit against Vortex's own Arrow reader, interleaved in one process.

Run as: python -m benchmarks.formats.vortex [rows], so that the library of the same name is found.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import vortex as vx
import vortex.expr as ve
from pyiceberg.expressions import LessThan
from pyiceberg.schema import Schema

from benchmarks.formats.goals import at_most
from benchmarks.formats.own_readers import SCHEMA, compare, drain, read, table, write
from formatkit.batches.arrow.types import arrow_schema
from formatkit.contract import POS, ReadOptions
from formatkit.formats.vortex.plugin import VortexFormat
from formatkit.kernel import bind


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path, bare = Path(folder, "formatkit.vortex"), Path(folder, "bare.vortex")
        data = table(rows)
        write(VortexFormat(), path, data)
        vx.io.write(data, str(bare))
        print(f"{rows} rows; formatkit {path.stat().st_size} bytes, Vortex alone {bare.stat().st_size} bytes")
        whole = ReadOptions(projection=SCHEMA)
        views = compare(
            "full scan × to_arrow()",
            lambda: read(VortexFormat(), path, whole),
            lambda: drain(vx.open(str(bare)).to_arrow()),
        )
        same = compare(
            "full scan × to_arrow(schema=…), no views",
            lambda: read(VortexFormat(), path, whole),
            lambda: drain(vx.open(str(bare)).to_arrow(schema=arrow_schema(SCHEMA), batch_size=32_768)),
        )
        two = Schema(SCHEMA.fields[1], SCHEMA.fields[4])
        compare(
            "two columns",
            lambda: read(VortexFormat(), path, ReadOptions(projection=two)),
            lambda: drain(vx.open(str(bare)).to_arrow(["amount", "name"])),
        )
        few = ReadOptions(projection=SCHEMA, predicate=bind(SCHEMA, LessThan("quantity", 10)))
        condition = ve.column("quantity") < ve.literal(vx.int_(32, nullable=True), 10)
        compare(
            "1 % of the rows",
            lambda: read(VortexFormat(), path, few),
            lambda: drain(vx.open(str(bare)).to_arrow(expr=condition)),
        )
        numbered = ReadOptions(projection=Schema(*SCHEMA.fields, POS), predicate=few.predicate)
        compare(
            "1 % of the rows with their ordinals",
            lambda: read(VortexFormat(), path, numbered),
            lambda: drain(vx.open(str(bare)).to_arrow(expr=condition)),
        )
        for what, ratios in (("to_arrow()", views), ("to_arrow() of the same types", same)):
            at_most(f"Vortex full scan, time × {what}", ratios.wall, 1.05)
            at_most(f"Vortex full scan, processor time × {what}", ratios.processor, 1.05)


if __name__ == "__main__":
    main()
