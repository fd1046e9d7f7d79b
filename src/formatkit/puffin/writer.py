"""Writes Puffin files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from formatkit.contract.metadata_columns import POS
from formatkit.contract.storage import SinkStream
from formatkit.puffin.deletion_vector import BLOB_TYPE, DeletionVector
from formatkit.puffin.footer import MAGIC, BlobMetadata, Footer

__all__ = ["PuffinWriter"]

_UNKNOWN = -1  # snapshot and sequence number of a deletion vector follow from its manifest


class PuffinWriter:
    """One Puffin file on a stream, which stays the caller's to close or to abort."""

    def __init__(self, stream: SinkStream) -> None:
        self._stream = stream
        self._blobs: list[BlobMetadata] = []
        self._size = 0
        self._write(MAGIC)

    def add(
        self,
        blob_type: str,
        data: bytes,
        *,
        fields: Sequence[int],
        snapshot_id: int,
        sequence_number: int,
        compression_codec: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> BlobMetadata:
        """Append a blob; `BlobMetadata` explains the arguments. The data is stored as it is given."""
        blob = BlobMetadata(
            type=blob_type,
            fields=tuple(fields),
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
            offset=self._size,
            length=len(data),
            compression_codec=compression_codec,
            properties=dict(properties or {}),
        )
        self._write(data)
        self._blobs.append(blob)
        return blob

    def add_deletion_vector(self, vector: DeletionVector, referenced_data_file: str) -> BlobMetadata:
        """Append the deletion vector of a data file."""
        return self.add(
            BLOB_TYPE,
            vector.to_bytes(),
            fields=(POS.field_id,),
            snapshot_id=_UNKNOWN,
            sequence_number=_UNKNOWN,
            properties={"referenced-data-file": referenced_data_file, "cardinality": str(vector.cardinality)},
        )

    def finish(self, properties: Mapping[str, str] | None = None) -> int:
        """Write the footer and return the length of the file."""
        self._write(Footer(blobs=tuple(self._blobs), properties=dict(properties or {})).to_bytes())
        return self._size

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._size += len(data)
