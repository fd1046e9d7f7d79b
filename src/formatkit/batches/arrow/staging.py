"""Output of codec libraries that write to paths only: a temporary file first, then the sink."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from formatkit.batches.arrow.file_writing import EncoderOutput
from formatkit.contract.seal import Checksums, sealed
from formatkit.contract.storage import SinkStream
from formatkit.forks import finalize_here

__all__ = ["StagedOutput"]

_COPY_BYTES = 1 << 20


class StagedOutput(EncoderOutput):
    """An output whose bytes come from a temporary file when all of them are there.

    Attributes:
        folder: A private folder, removed with everything in it when the file is published or given up.
        expected_bytes: Tells about how long the file will be, until it is known.
        cancel: Called before the folder is removed because the file is given up.
    """

    def __init__(self, stream: SinkStream) -> None:
        super().__init__(stream)
        self.folder = Path(tempfile.mkdtemp(prefix="formatkit-"))
        self._remove_folder = finalize_here(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.expected_bytes: Callable[[], int] = lambda: 0
        self.cancel: Callable[[], None] = lambda: None

    def tell(self) -> int:
        return super().tell() or self.expected_bytes()

    def copy_sealed(self, path: Path, tail_length: Callable[[bytes], int], facts: Mapping[str, Any]) -> None:
        """Write a staged file with a seal before its tail.

        Args:
            path: The file.
            tail_length: How long its tail is, given its last bytes.
            facts: What the seal is to say.
        """
        checksums = Checksums()
        size = path.stat().st_size
        with path.open("rb") as staged:
            staged.seek(max(0, size - 64))
            left = size - tail_length(staged.read())
            staged.seek(0)
            while left:
                data = staged.read(min(_COPY_BYTES, left))
                checksums.update(data)
                self.write(data)
                left -= len(data)
            tail = staged.read()
        self.write(sealed(checksums, facts, tail))

    def publish(self) -> None:
        self._remove_folder()
        super().publish()

    def abort(self) -> None:
        try:
            self.cancel()
            self._remove_folder()
        finally:
            super().abort()
