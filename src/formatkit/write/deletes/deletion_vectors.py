"""Writes deletion vectors: the deleted rows of data files, several in one Puffin file."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import NamedTuple

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.typedef import Record

from formatkit.errors import ConfigurationError
from formatkit.io import OutputLocation, open_sink
from formatkit.puffin import DeletionVector, PuffinWriter
from formatkit.write.data_file import deletion_vector_file

__all__ = ["PartitionOf", "write_deletion_vectors"]


class PartitionOf(NamedTuple):
    """Where a data file belongs; its deletion vector belongs there too."""

    spec_id: int = 0
    partition: Record | None = None


def write_deletion_vectors(
    output: OutputLocation,
    vectors: Mapping[str, DeletionVector],
    *,
    partitions: Mapping[str, PartitionOf] | None = None,
    io: FileIO | None = None,
) -> list[DataFile]:
    """Write one Puffin file of deletion vectors; a failure leaves no file.

    Args:
        output: A path, a URI or a pyiceberg `OutputFile`.
        vectors: By the location of a data file, exactly as the table spells it: all of its rows that are deleted, those
            of the vector or the position deletes included that this one replaces.
        partitions: By the location of a data file, where it belongs; not needed if the table is not partitioned.
        io: Where to look up locations that are not local; made from the location's scheme if left out.

    Returns:
        What manifests record for each vector, in the order of `vectors`.

    Raises:
        ConfigurationError: There is no vector, or one without positions.
    """
    sink = open_sink(output, io)
    if not vectors:
        raise ConfigurationError(f"there is no deletion vector to write to {sink.location}; write no file then")
    empty = [location for location, vector in vectors.items() if not vector.cardinality]
    if empty:
        raise ConfigurationError(f"the deletion vectors of {', '.join(empty)} delete no row; leave them out")
    stream = sink.create()
    try:
        writer = PuffinWriter(stream)
        blobs = {location: writer.add_deletion_vector(vector, location) for location, vector in vectors.items()}
        size = writer.finish({"created-by": f"formatkit {version('formatkit')}"})
        stream.close()
    except BaseException:
        stream.abort()
        raise
    placed = {location: (partitions or {}).get(location, PartitionOf()) for location in vectors}
    return [
        deletion_vector_file(
            sink.location,
            size,
            blob,
            cardinality=vectors[location].cardinality,
            referenced_data_file=location,
            partition=placed[location].partition,
            spec_id=placed[location].spec_id,
        )
        for location, blob in blobs.items()
    ]
