"""Files as the libraries of other people read them, one for each format that formatkit writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.ipc
import pyarrow.parquet as pq
import pyorc
import vortex
from lance.file import LanceFileReader

__all__ = ["FORMATS", "METADATA", "rows_of"]

Rows = list[dict[str, Any]]


def _parquet(path: Path) -> Rows:
    return pq.ParquetFile(path).read().to_pylist()


def _orc(path: Path) -> Rows:
    with path.open("rb") as file:
        return list(pyorc.Reader(file, struct_repr=pyorc.StructRepr.DICT))


def _avro(path: Path) -> Rows:
    with path.open("rb") as file:
        return [row for row in fastavro.reader(file) if isinstance(row, dict)]


def _arrow(path: Path) -> Rows:
    with pyarrow.ipc.open_file(str(path)) as reader:
        return reader.read_all().to_pylist()


def _vortex(path: Path) -> Rows:
    return vortex.open(str(path)).to_arrow().read_all().to_pylist()


def _lance(path: Path) -> Rows:
    return LanceFileReader(str(path)).read_all().to_table().to_pylist()


_READERS: Mapping[str, Callable[[Path], Rows]] = {
    "arrow": _arrow,
    "avro": _avro,
    "lance": _lance,
    "orc": _orc,
    "parquet": _parquet,
    "vortex": _vortex,
}
FORMATS = tuple(_READERS)


def rows_of(path: Path) -> Rows:
    """The rows of a file, whose ending names its format."""
    return _READERS[path.suffix[1:]](path)


def _parquet_metadata(path: Path) -> dict[str, str]:
    pairs = pq.read_metadata(path).metadata or {}
    return {key.decode(): value.decode() for key, value in pairs.items()}


def _orc_metadata(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        return {key: value.decode() for key, value in pyorc.Reader(file).user_metadata.items()}


def _avro_metadata(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        return dict(fastavro.reader(file).metadata)


def _arrow_metadata(path: Path) -> dict[str, str]:
    with pyarrow.ipc.open_file(str(path)) as reader:
        return {key.decode(): value.decode() for key, value in (reader.schema.metadata or {}).items()}


METADATA: Mapping[str, Callable[[Path], dict[str, str]]] = {
    "arrow": _arrow_metadata,
    "avro": _avro_metadata,
    "orc": _orc_metadata,
    "parquet": _parquet_metadata,
}
"""How to find the key-value pairs of a file; the libraries of the other formats do not show them."""
