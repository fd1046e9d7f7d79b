"""The deleted rows of one data file, as a blob of type ``deletion-vector-v1``."""

from __future__ import annotations

import struct
import zlib
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from formatkit.contract.batch import Longs
from formatkit.contract.storage import ByteSource
from formatkit.errors import CorruptFileError, InvalidDataError
from formatkit.forks import cached
from formatkit.puffin.containers import Containers
from formatkit.puffin.footer import read_footer
from formatkit.puffin.portable import Cursor, read_positions, write_positions
from formatkit.puffin.row_positions import row_positions

__all__ = ["BLOB_TYPE", "DeletionVector", "read_deletion_vector"]

BLOB_TYPE: Final = "deletion-vector-v1"

_MAGIC = bytes((0xD1, 0xD3, 0x39, 0x64))
_FRAME = 8  # a length before and a checksum behind
_LARGEST_BLOB = 2**31 - 1


class DeletionVector:
    """A set of row positions. It stays compressed: positions are decoded when they are asked for."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers

    @classmethod
    def from_positions(cls, positions: ArrayLike) -> DeletionVector:
        """The set of these positions; see `row_positions`."""
        return cls(Containers.of(row_positions(positions)))

    @classmethod
    def parse(cls, data: bytes | memoryview, location: str) -> DeletionVector:
        """Read a blob. No more memory is taken than a small multiple of its length, whatever it says.

        Raises:
            CorruptFileError: A length, the magic, the checksum or anything inside the bitmap is not as it must be.
        """
        blob = memoryview(data).cast("B")
        cursor = Cursor(blob, location)
        length = cursor.number(">I")
        if length + _FRAME != len(blob):
            cursor.fail(f"it has {len(blob)} bytes, but says that it has {length + _FRAME}")
        content = cursor.take(length)
        checksum = cursor.number(">I")
        inside = Cursor(content, location)
        if (magic := bytes(inside.take(min(len(_MAGIC), inside.left)))) != _MAGIC:
            cursor.fail(f"it begins with {magic.hex()} instead of {_MAGIC.hex()}")
        if (found := zlib.crc32(content)) != checksum:
            cursor.fail(f"its checksum is {found:08x}, but it says {checksum:08x}")
        return cls(read_positions(inside))

    def to_bytes(self) -> bytes:
        """The blob, byte for byte what Java writes for the same positions (below 2³²; see the note).

        Above 2³², Java also writes an empty bitmap for each stretch of 2³² rows without deletes, which is left out
        here: every reader takes both, and a single high position would otherwise take gigabytes.

        Raises:
            InvalidDataError: It would be longer than the 2 GiB that readers accept.
        """
        content = _MAGIC + write_positions(self._containers)
        if len(content) + _FRAME > _LARGEST_BLOB:
            raise InvalidDataError(f"a deletion vector of {len(content)} bytes is longer than the 2 GiB readers accept")
        return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))

    @cached
    def cardinality(self) -> int:
        """How many rows are deleted."""
        return int(self._containers.cardinalities.sum())

    @property
    def positions(self) -> Longs:
        """All positions, ascending; eight bytes each. `between` decodes no more than what is needed."""
        return self._containers.positions()

    def between(self, start: int, stop: int) -> Longs:
        """The positions from `start` to before `stop`, ascending."""
        keys = self._containers.keys
        first, last = np.searchsorted(keys, [start >> 16, (stop + 65535) >> 16])
        if first >= last or start >= stop:
            return np.zeros(0, np.int64)
        near = self._containers.part(int(first), int(last)).positions()
        lower, upper = np.searchsorted(near, [start, stop])
        return near[lower:upper]

    def __or__(self, other: DeletionVector) -> DeletionVector:
        """The positions that are in either."""
        if not isinstance(other, DeletionVector):
            return NotImplemented
        return DeletionVector.from_positions(np.concatenate([self.positions, other.positions]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeletionVector) and np.array_equal(self.positions, other.positions)

    __hash__ = None  # type: ignore[assignment]  # equal ones may be stored in different forms

    def __repr__(self) -> str:
        return f"DeletionVector of {self.cardinality} positions"


def read_deletion_vector(
    source: ByteSource,
    offset: int,
    size: int,
    *,
    cardinality: int | None = None,
    referenced_data_file: str | None = None,
) -> DeletionVector:
    """Read one deletion vector of a Puffin file; of the file, only these bytes are read.

    Args:
        source: The Puffin file.
        offset: Where the blob begins, as the manifest says.
        size: How long it is, as the manifest says.
        cardinality: How many positions it must hold: the record count in the manifest. Checked before any is decoded.
        referenced_data_file: The data file that it must belong to. If given, the footer is read too, and what it says
            of the blob must be the same.

    Raises:
        CorruptFileError: The bytes are no deletion vector, or not the one that was described.
    """
    if referenced_data_file is not None:
        _check_reference(source, offset, size, cardinality, referenced_data_file)
    vector = DeletionVector.parse(source.read(offset, size), source.location)
    if cardinality is not None and vector.cardinality != cardinality:
        raise _not_as_described(
            source, offset, f"it holds {vector.cardinality} positions, but the manifest says {cardinality}"
        )
    return vector


def _check_reference(source: ByteSource, offset: int, size: int, cardinality: int | None, referenced: str) -> None:
    blob = next((blob for blob in read_footer(source).blobs if blob.offset == offset), None)
    if blob is None or blob.type != BLOB_TYPE:
        raise _not_as_described(source, offset, f"the footer lists no blob of type {BLOB_TYPE} there")
    if blob.length != size:
        raise _not_as_described(source, offset, f"the footer gives it {blob.length} bytes, but the manifest {size}")
    if (belongs_to := blob.properties.get("referenced-data-file")) != referenced:
        raise _not_as_described(source, offset, f"it belongs to the data file {belongs_to}, not to {referenced}")
    if cardinality is not None and (said := blob.properties.get("cardinality")) != str(cardinality):
        raise _not_as_described(source, offset, f"the footer counts {said} positions, but the manifest {cardinality}")


def _not_as_described(source: ByteSource, offset: int, what: str) -> CorruptFileError:
    message = f"{source.location}: the deletion vector at byte {offset} is not the one that is described: {what}"
    return CorruptFileError(message, location=source.location)
