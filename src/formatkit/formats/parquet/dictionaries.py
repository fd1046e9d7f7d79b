"""The dictionary of a column chunk, as compiled code looks values up in it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formatkit.batches.compiled.loading import kernels
from formatkit.formats.parquet.kernels.numbers import SLACK
from formatkit.formats.parquet.page_content import KERNELS, Content, address
from formatkit.formats.parquet.page_reader import PageReader

__all__ = ["NO_DICTIONARY", "Dictionary", "dictionary_of_bytes", "dictionary_of_values"]


class Dictionary(NamedTuple):
    """A dictionary by addresses that are valid as long as `content` is held.

    Attributes:
        size: How many values it has.
        values: Where they are, or where the addresses of byte arrays are.
        lengths: Where the lengths of byte arrays are.
        content: The memory.
        mean_length: How many bytes a byte array has on average.
    """

    size: int
    values: int
    lengths: int
    content: object
    mean_length: float = 0


NO_DICTIONARY = Dictionary(0, 0, 0, None)


def dictionary_of_values(reader: PageReader, stored: np.dtype[Any]) -> tuple[npt.NDArray[Any], Dictionary]:
    """Values that are all stored in the same number of bytes."""
    count, content = reader.dictionary
    if content.size != count * stored.itemsize:
        raise reader.contradiction("the dictionary does not hold as many values as it says")
    return _view(content, stored), Dictionary(count, content.address, 0, content)


def dictionary_of_bytes(reader: PageReader) -> Dictionary:
    """Byte arrays, with some bytes behind the last one that can be read."""
    count, content = reader.dictionary
    if count > content.size:
        raise reader.contradiction("the dictionary does not hold as many values as it says")
    memory = np.empty(content.size + SLACK, np.uint8)
    memory[: content.size] = _view(content, np.dtype(np.uint8))
    found, lengths = np.empty(count, np.int64), np.empty(count, np.int64)
    start, at_found, at_lengths = address(memory), address(found), address(lengths)
    if kernels(KERNELS).dictionary_arrays(start, start + content.size, count, at_found, at_lengths) < 0:
        raise reader.contradiction("the dictionary is damaged")
    return Dictionary(count, at_found, at_lengths, (memory, found, lengths), content.size / max(count, 1) - 4)


def _view(content: Content, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(memoryview(pa.foreign_buffer(content.address, content.size, content)), kind)
