"""How code is compiled, kept and loaded, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

KERNELS = """
from __future__ import annotations

from formatkit.batches.compiled.language import copy, entry, load64, part, store64
from {package}.kernels.numbers import FACTOR

TABLE = (3, 1, 4, 1, 5)


@part
def _power(base: int, exponent: int) -> int:
    found = 1
    for _ in range(exponent):
        found *= base
    return found


@entry
def scaled(number: int, exponent: int) -> int:
    return _power(FACTOR, exponent) * number


@entry
def summed(address: int, count: int) -> int:
    total = 0
    for place in range(count):
        total += load64(address + 8 * place)
    return total


@entry
def looked_up(place: int) -> int:
    return TABLE[place % 5]


@entry
def copied(target: int, source: int, length: int) -> int:
    copy(target, source, length)
    return length
"""

CALLS = """
import sys
import numpy as np
from formatkit.batches.compiled.loading import are_ready, kernels

ready = are_ready("{package}.kernels")
found = kernels("{package}.kernels")
numbers = np.arange(100)
pieces = []
for length in (*range(70), 1000):
    source, target = np.random.default_rng(length).bytes(length), bytearray(length + 1)
    start = np.frombuffer(target, np.uint8).ctypes.data
    found.copied(start, np.frombuffer(source or b"-", np.uint8).ctypes.data, length)
    pieces.append(bytes(target) == source + b"\\0")
print(
    ready,
    "numba" in sys.modules,
    found.scaled(7, 2),
    found.summed(numbers.ctypes.data, 100),
    [found.looked_up(place) for place in range(6)],
    all(pieces),
)
"""
ANSWERS = "700 4950 [3, 1, 4, 1, 5, 3] True"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A stranger's package with kernels, whose name is the same in no other test."""
    folder = tmp_path / f"stranger{os.getpid()}" / "kernels"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "numbers.py").write_text("FACTOR = 10\n")
    (folder / "arithmetic.py").write_text(KERNELS.format(package=folder.parent.name))
    return folder.parent


def run(package: Path, program: str = CALLS, **environment: str) -> str:
    places = {"PYTHONPATH": str(package.parent), "XDG_CACHE_HOME": str(package.parent / "cache")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program).format(package=package.name)],
        env=os.environ | places | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def images(package: Path) -> list[Path]:
    return sorted((package / "kernels").glob("*.image"))


def test_code_is_compiled_once_and_then_called_without_the_compiler(package: Path) -> None:
    assert run(package) == f"False True {ANSWERS}"
    (image,) = images(package)
    assert run(package) == f"True False {ANSWERS}"
    assert images(package) == [image]


def test_changed_sources_are_compiled_again_and_old_images_go(package: Path) -> None:
    run(package)
    (image,) = images(package)
    (package / "kernels" / "numbers.py").write_text("FACTOR = 20\n")
    assert run(package) == f"False True {ANSWERS}".replace("700", "2800")
    assert len(images(package)) == 1
    assert images(package) != [image]


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "foreign"])
def test_a_damaged_image_is_never_called_but_made_anew(package: Path, damage: str) -> None:
    run(package)
    (image,) = images(package)
    content = image.read_bytes()
    flipped = content[:-100] + bytes([content[-100] ^ 1]) + content[-99:]
    image.write_bytes(
        {"flipped": flipped, "cut": content[: len(content) // 2], "empty": b"", "foreign": b"foreign" * 1000}[damage]
    )
    assert run(package) == f"False True {ANSWERS}"
    assert image.read_bytes() == content


def test_images_are_kept_where_the_user_says(package: Path, tmp_path: Path) -> None:
    assert run(package, FORMATKIT_IMAGES=str(tmp_path / "kept")) == f"False True {ANSWERS}"
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert not images(package)
    assert run(package, FORMATKIT_IMAGES=str(tmp_path / "kept")) == f"True False {ANSWERS}"


def test_images_are_kept_in_the_cache_folder_if_they_cannot_be_beside_their_sources(
    package: Path, tmp_path: Path
) -> None:
    run(package, FORMATKIT_IMAGES=str(tmp_path / "kept"))
    (image,) = (tmp_path / "kept").iterdir()
    # Permissions do not stop everybody; a folder of that name does.
    (package / "kernels" / image.name).mkdir()
    assert run(package) == f"False True {ANSWERS}"
    assert run(package) == f"True False {ANSWERS}"
    assert (package.parent / "cache" / "formatkit" / image.name).is_file()


def test_images_need_not_be_kept(package: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for _ in range(2):
        assert run(package, FORMATKIT_IMAGES=str(tmp_path / "file")) == f"False True {ANSWERS}"


def test_without_images_numba_keeps_what_it_compiled(package: Path, tmp_path: Path) -> None:
    environment = {"FORMATKIT_IMAGES": "off", "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    assert run(package, **environment) == f"False True {ANSWERS}"
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "numba").rglob("*.nbc")}
    assert len(kept) == 4
    assert run(package, **environment) == f"False True {ANSWERS}"
    assert kept == {path: path.stat().st_mtime_ns for path in (tmp_path / "numba").rglob("*.nbc")}
    assert not images(package)


def test_code_that_calls_a_library_is_left_to_numba(package: Path) -> None:
    source = package / "kernels" / "arithmetic.py"
    # Fractions of any size are divided by a function of the compiler's library.
    source.write_text(source.read_text() + "\n\n@entry\ndef rooted(number: int) -> int:\n    return int(number**0.3)\n")
    assert run(package) == f"False True {ANSWERS}"
    assert not images(package)


def test_threads_that_load_at_once_and_forks_meanwhile_all_finish(package: Path) -> None:
    program = """
        import os
        from concurrent.futures import ThreadPoolExecutor
        from formatkit.batches.compiled.loading import kernels

        def scaled(number):
            return kernels("{package}.kernels").scaled(number, 1)

        with ThreadPoolExecutor(4) as pool:
            calls = [pool.submit(scaled, number) for number in range(8)]
            children = []
            for _ in range(3):
                child = os.fork()
                if not child:
                    os._exit(0 if scaled(5) == 50 else 1)
                children.append(child)
            assert [call.result() for call in calls] == list(range(0, 80, 10))
            print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
    """
    assert run(package, program) == "[0, 0, 0]"
    assert run(package, program) == "[0, 0, 0]"
