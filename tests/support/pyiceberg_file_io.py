"""A `FileIO` of pyiceberg for one file that formatkit holds: a source to be read, or an output to be written."""

from __future__ import annotations

from typing import Any, BinaryIO

from pyiceberg.io import FileIO, InputFile, OutputFile

from formatkit.batches.arrow.file_writing import EncoderOutput
from formatkit.contract import ByteSource
from formatkit.errors import UnsupportedError

__all__ = ["OneFile"]


class OneFile(FileIO):
    """A `FileIO` for which every location is that of one source, or of one output."""

    def __init__(self, source: ByteSource | None = None, output: EncoderOutput | None = None) -> None:
        super().__init__()
        self._source = source
        self._output = output

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self._source)

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self._output)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise UnsupportedError(f"{location}: is not pyiceberg's to delete")


class _Input(InputFile):
    def __init__(self, location: str, source: Any) -> None:
        super().__init__(location)
        self._source = source

    def __len__(self) -> int:
        return int(self._source.size())

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> Any:
        stream: BinaryIO = self._source.open()
        return stream


class _Output(OutputFile):
    def __init__(self, location: str, output: Any) -> None:
        super().__init__(location)
        self._output = output

    def __len__(self) -> int:
        return int(self._output.tell())

    def exists(self) -> bool:
        return False

    def to_input_file(self) -> InputFile:
        raise UnsupportedError(f"{self.location}: cannot be read while it is written")

    def create(self, overwrite: bool = False) -> Any:
        return _OutputStream(self._output)


class _OutputStream:
    closed = False

    def __init__(self, output: EncoderOutput) -> None:
        self._output = output
        self.write, self.tell, self.flush = output.write, output.tell, output.flush

    def close(self) -> None:
        """The writer publishes the file."""

    def __enter__(self) -> _OutputStream:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
