"""Where the pages of a column chunk are, as an `OffsetIndex` in Thrift's compact protocol tells it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from formatkit.formats.parquet.thrift import ThriftError, decode_struct, varint

__all__ = ["page_locations"]

_Numbers = npt.NDArray[np.int64]

_LIST_FIELD = 0x19
_STRUCTS = 0x0C
_MANY = 0xF
_LOCATION = (0x16, 0x15, 0x16, 0)
"""What stands before, between and behind the three numbers of a location: the heads of fields, and the end."""

_MOST_BYTES = 9


def page_locations(data: bytes) -> _Numbers:
    """Offset, length and first row of each page, in rows. Raises `ThriftError` if there is nothing like that."""
    found = _usual_locations(data)
    if found is not None:
        return found
    try:
        pages = decode_struct(data)[0][1]
        return np.array([(page[1], page[2], page[3]) for page in pages], dtype=np.int64).reshape(-1, 3)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise ThriftError("it does not tell where pages are") from error


def _usual_locations(data: bytes) -> _Numbers | None:
    """The same without a step of Python for each page, for indexes that are stored as all writers do it."""
    try:
        count, at = _list_head(data)
    except (IndexError, ThriftError):
        return None
    content = np.frombuffer(data, np.uint8, offset=min(at, len(data)))
    # Every number ends with a byte below 0x80, and so do all that stand between numbers.
    ends = np.flatnonzero(content < 0x80)[: 7 * count] + 1
    if not count or len(ends) < 7 * count:
        return None
    starts = np.concatenate(([0], ends[:-1]))
    lengths = ends - starts
    if lengths.max() > _MOST_BYTES:
        return None
    shifts = 7 * (np.arange(ends[-1]) - np.repeat(starts, lengths))
    numbers = np.add.reduceat((content[: ends[-1]] & 0x7F).astype(np.int64) << shifts, starts).reshape(count, 7)
    if not (numbers[:, ::2] == _LOCATION).all():
        return None
    numbers = numbers[:, 1::2]
    return (numbers >> 1) ^ -(numbers & 1)


def _list_head(data: bytes) -> tuple[int, int]:
    """How many structs the list has that the data begin with, and where they begin; none if they do not."""
    if data[0] != _LIST_FIELD or data[1] & 0x0F != _STRUCTS:
        return 0, 0
    return varint(data, 2) if data[1] >> 4 == _MANY else (data[1] >> 4, 2)
