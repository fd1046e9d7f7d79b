"""Formats that write well and then get into trouble when they read."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from formatkit.contract import ByteSource, OpenOptions
from formatkit.formats.arrow.plugin import ArrowFormat
from formatkit.formats.arrow.reader import ArrowDataFile, ArrowReader

__all__ = ["CrashingFormat", "HangingFormat", "RaisingFormat", "install_troubled_formats"]


class _CrashingReader(ArrowReader):
    def open(self, source: ByteSource, options: OpenOptions) -> ArrowDataFile:
        os.kill(os.getpid(), signal.SIGSEGV)
        return super().open(source, options)


class _HangingReader(ArrowReader):
    def open(self, source: ByteSource, options: OpenOptions) -> ArrowDataFile:
        time.sleep(3600)
        return super().open(source, options)


class _RaisingReader(ArrowReader):
    def open(self, source: ByteSource, options: OpenOptions) -> ArrowDataFile:
        print("a plugin that prints")
        raise ZeroDivisionError("\x1b[31mdivided by zero")


class CrashingFormat(ArrowFormat):
    file_format = "crashing"

    def reader(self) -> ArrowReader:
        return _CrashingReader()


class HangingFormat(ArrowFormat):
    file_format = "hanging"

    def reader(self) -> ArrowReader:
        return _HangingReader()


class RaisingFormat(ArrowFormat):
    file_format = "raising"

    def reader(self) -> ArrowReader:
        return _RaisingReader()


def install_troubled_formats(folder: Path) -> dict[str, str]:
    """Install all three into a folder; returns the variables of processes that see them."""
    formats = (CrashingFormat, HangingFormat, RaisingFormat)
    lines = [f"{each.file_format} = {each.__module__}:{each.__name__}" for each in formats]
    metadata = folder / "troubled-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: troubled\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("\n".join(["[formatkit.formats]", *lines, ""]))
    tests = Path(__file__).resolve().parents[1]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(tests)])}
