"""Implementations of pyiceberg's `FileIO` that stand before another one, and how to see through them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyiceberg.io import FileIO, InputFile, OutputFile

__all__ = [
    "WrappingFileIO",
    "WrappingInputFile",
    "WrappingOutputFile",
    "file_io_behind",
    "input_behind",
    "output_behind",
]


class WrappingFileIO(FileIO, ABC):
    """A `FileIO` that changes nothing about what is stored, so that whoever knows better may go past it."""

    @abstractmethod
    def behind(self, location: str) -> FileIO:
        """What reaches the location in the end."""


class WrappingInputFile(InputFile, ABC):
    """A file of a `WrappingFileIO`."""

    behind: InputFile


class WrappingOutputFile(OutputFile, ABC):
    """A file of a `WrappingFileIO`."""

    behind: OutputFile


def file_io_behind(io: FileIO, location: str) -> FileIO:
    """The `FileIO` itself, or what it stands before."""
    return file_io_behind(io.behind(location), location) if isinstance(io, WrappingFileIO) else io


def input_behind(file: InputFile) -> InputFile:
    """The file itself, or what it stands before."""
    return input_behind(file.behind) if isinstance(file, WrappingInputFile) else file


def output_behind(file: OutputFile) -> OutputFile:
    """The file itself, or what it stands before."""
    return output_behind(file.behind) if isinstance(file, WrappingOutputFile) else file
