"""An image that cannot be trusted, or run, is not used, and the same rows are read without it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from formatkit import write_file
from formatkit.batches.compiled.images import Image, ImageError, find_image, image_places, processor
from formatkit.batches.compiled.loading import kernels

pytestmark = pytest.mark.skipif(processor() is None, reason="there are no images on this system")

FORMATS = ("avro", "orc", "parquet")
ROWS = 5000

# Compiling is tried at once, and fails: there is no numba.
PROGRAM = """
import ctypes, hashlib, json, sys
if {refusing}:
    PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
    assert ctypes.CDLL(None).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) == 0
import formatkit
from formatkit.batches.compiled.loading import can_load
from formatkit.formats.avro import decoding
from formatkit.formats.orc import flat_columns as orc
from formatkit.formats.parquet import flat_columns as parquet

for payback in (decoding._compiled_pays, orc.PAYBACK, parquet.PAYBACK):
    payback._unpaid = -1
found = {{}}
for location in sys.argv[1:]:
    table = formatkit.read_file(location).to_arrow()
    rows = hashlib.sha256(json.dumps(table.to_pylist()).encode()).hexdigest()
    package = f"formatkit.formats.{{location.rpartition('.')[2]}}.kernels"
    found[package] = (rows, can_load(package))
print(json.dumps(found))
"""


def rewritten(content: bytes, change: Callable[[dict[str, object]], object]) -> bytes:
    """An image with another header under a checksum that fits."""
    magic, _, rest = content.split(b"\n", 2)
    line, _, code = rest.partition(b"\n")
    header = json.loads(line)
    changed = change(header)
    rest = (json.dumps(header).encode() if changed is None else changed) + b"\n" + code  # type: ignore[operator]
    return b"\n".join((magic, hashlib.sha256(rest).hexdigest().encode(), rest))


def with_other_offset(content: bytes) -> bytes:
    at = content.index(b'"calls": {') + 20
    digit = next(place for place in range(at, len(content)) if content[place : place + 1].isdigit())
    return content[:digit] + bytes([content[digit] ^ 1]) + content[digit + 1 :]


def move_calls(header: dict[str, object]) -> None:
    header["calls"] = dict.fromkeys(header["calls"], (1 << 40, 3))  # type: ignore[call-overload]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "another offset": with_other_offset,
    "another byte of code": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "bytes behind it": lambda content: content + b"\0",
    "cut off": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "broken JSON": lambda content: rewritten(content, lambda _: b'{"calls": '),
    "no calls": lambda content: rewritten(content, lambda header: header.pop("calls") and None),
    "calls outside the code": lambda content: rewritten(content, move_calls),
    "another name": lambda content: rewritten(content, lambda header: header.update(name="x86-64-00000000.image")),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("files")
    fields = (LongType(), DoubleType(), StringType())
    schema = Schema(*(NestedField(number, f"c{number}", kind) for number, kind in enumerate(fields, 1)))
    numbers = range(ROWS)
    table = pa.table({"c1": numbers, "c2": [n / 7 for n in numbers], "c3": [f"text {n % 97}" for n in numbers]})
    locations = [str(folder / f"rows.{name}") for name in FORMATS]
    for location in locations:
        write_file(location, table, schema=schema)
    return locations


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    """The images of all formats, to be spoilt, in the folder that the user named."""
    folder = tmp_path / "images"
    folder.mkdir()
    for name in FORMATS:
        package = Path(sys.modules["formatkit"].__path__[0]) / "formats" / name / "kernels"
        kernels(f"formatkit.formats.{name}.kernels")
        source = next(path for path in image_places(package) if path.is_file())
        shutil.copy(source, folder)
    return sorted(folder.iterdir())


def answers(files: list[str], folder: Path, *, refusing: bool = False, numba: str | None = "raise ImportError") -> str:
    """What a process reads that looks for images in a folder, and whose numba does this; its log lines."""
    path = [os.environ.get("PYTHONPATH", "")]
    if numba is not None:
        (folder.parent / "modules" / "numba").mkdir(parents=True)
        (folder.parent / "modules" / "numba" / "__init__.py").write_text(numba)
        path.insert(0, str(folder.parent / "modules"))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(refusing=refusing), *files],
        env=os.environ | {"FORMATKIT_IMAGES": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len({rows for rows, _ in found.values()}) == 1, "formats differ"
    rows, loads = next(iter(found.values()))
    expected = [{"c1": n, "c2": n / 7, "c3": f"text {n % 97}"} for n in range(ROWS)]
    assert rows == hashlib.sha256(json.dumps(expected).encode()).hexdigest()
    assert {loaded for _, loaded in found.values()} == {loads}
    return "" if loads else done.stderr


def test_a_sound_image_is_used_without_numba(files: list[str], images: list[Path]) -> None:
    assert answers(files, images[0].parent) == ""


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_image_is_refused(damage: str, images: list[Path]) -> None:
    for image in images:
        image.write_bytes(DAMAGE[damage](image.read_bytes()))
        with pytest.raises(ImageError):
            Image.from_bytes(image.read_bytes(), image.name)


@pytest.mark.parametrize("damage", ["another offset", "broken JSON"])
def test_rows_are_the_same_without_a_damaged_image(damage: str, files: list[str], images: list[Path]) -> None:
    for image in images:
        image.write_bytes(DAMAGE[damage](image.read_bytes()))
    log = answers(files, images[0].parent)
    for image in images:
        assert log.count(image.name) == 1
    assert log.count("is not compiled, files are decoded without it: ImportError") == 3


def test_rows_are_the_same_if_others_can_write_to_images(files: list[str], images: list[Path]) -> None:
    for image, mode in zip(images, (0o664, 0o646, 0o666), strict=True):
        image.chmod(mode)
    assert answers(files, images[0].parent).count("nobody else may write to it") == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_rows_are_the_same_if_images_belong_to_another_user(files: list[str], images: list[Path]) -> None:
    for image in images:
        os.chown(image, 12345, 12345)
    assert answers(files, images[0].parent).count("user 12345 owns it") == 3


def test_rows_are_the_same_if_images_cannot_be_read(files: list[str], images: list[Path]) -> None:
    for number, image in enumerate(images):
        image.unlink()
        (image.mkdir, lambda image=image: os.mkfifo(image), lambda image=image: image.symlink_to(image))[number]()
    assert answers(files, images[0].parent).count("an image of compiled code is not used") == 3


def test_rows_are_the_same_if_memory_cannot_be_made_executable(files: list[str], images: list[Path]) -> None:
    log = answers(files, images[0].parent, refusing=True, numba=None)
    assert log.count("an image of compiled code is not used") == 3
    assert log.count("is not compiled, files are decoded without it: ") == 3


@pytest.mark.parametrize("numba", ["raise ImportError", "raise RuntimeError('it is broken')", ""])
def test_rows_are_the_same_without_image_and_compiler(numba: str, files: list[str], tmp_path: Path) -> None:
    assert "is not compiled, files are decoded without it" in answers(files, tmp_path / "none", numba=numba)


def test_images_say_what_compiled_them(images: list[Path]) -> None:
    for image in images:
        assert "numba" in Image.from_bytes(image.read_bytes(), image.name).compiler


def test_no_image_is_no_complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORMATKIT_IMAGES", str(tmp_path))
    assert find_image(tmp_path) == (None, "")
