"""What a user does first, run by an environment that holds formatkit and what it depends on, and nothing else.

`python tour.py FOLDER IMAGES` writes and reads back a file of each built-in format. IMAGES is how many formats must
have brought compiled code along; then it has to be in use, and the compiler has not been needed.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pyarrow as pa

import formatkit
from formatkit.batches.compiled import loading

FORMATS = ("arrow", "avro", "orc", "parquet")
ROWS = 10_000  # fewer rows of Parquet are left to pyarrow


def main(folder: Path, images: int) -> None:
    installed = Path(formatkit.__file__).parent
    assert Path(sys.prefix) in installed.parents, f"formatkit is not installed here: {installed}"
    rows = pa.table({"id": range(ROWS), "name": [None if i % 7 == 0 else f"name {i}" for i in range(ROWS)]})
    for name in FORMATS:
        location = folder / f"rows.{name}"
        formatkit.write_file(location, rows)
        read = formatkit.read_file(location).to_arrow()
        assert read.to_pylist() == rows.to_pylist(), f"{name} gives other rows than were written"
        assert formatkit.read_file(location, where="id < 7 and name is null").count() == 1, name
    assert len(loading._loaded) == images, f"compiled code of {images} formats has to be in use: {[*loading._loaded]}"
    assert images == 0 or "numba" not in sys.modules, "the compiler was loaded although there are images"
    print(f"Python {platform.python_version()}: {', '.join(FORMATS)} written and read, with {images} images")


main(Path(sys.argv[1]), int(sys.argv[2]))
