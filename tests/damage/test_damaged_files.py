"""A damaged file of any format gives a typed error or rows, never the end of the process, a hang or endless memory.

Where the format stores a checksum over what was damaged, rows that come back are the right ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import product
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings

import formatkit
from formatkit.formats.parquet.thrift import decode_struct
from formatkit.io import MemorySink
from formatkit.registry import default_registry
from formatkit.tck.rows import comparable, from_arrow, to_arrow
from support.damage import damages, read_all
from support.everything import ROWS, SCHEMA

# 200 in CI, 10,000 in a long run, which are never the same unless DAMAGE_SEED says so.
DAMAGES = 2 * settings.default.max_examples  # type: ignore[union-attr]
CHANCE = Random().randrange(1 << 32) if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 7
SEED = int(os.environ.get("DAMAGE_SEED", CHANCE))
_COMPRESSED_SIZE = 3
"""The field of a page's header."""
QUESTIONS = (None, "small > -5 and (text = '' or text is null)", "big >= 0")


def parquet_pages(data: bytes) -> Container[int]:
    """What pages hold. Their headers have no checksum, nor has what is behind all pages."""
    metadata = pq.read_metadata(pa.BufferReader(data))
    places: set[int] = set()
    for group, column in product(range(metadata.num_row_groups), range(metadata.num_columns)):
        chunk = metadata.row_group(group).column(column)
        at = chunk.dictionary_page_offset or chunk.data_page_offset
        end = at + chunk.total_compressed_size
        while at < end:
            header, start = decode_struct(data, at)
            at = start + header[_COMPRESSED_SIZE]
            places.update(range(start, at))
    return places


def avro_blocks(data: bytes) -> range:
    """All but the first byte of the only block: a file that ends before it is whole, and has no rows."""
    return range(data.index(data[-16:]) + 17, len(data))


def all_bytes(data: bytes) -> range:
    return range(len(data))


@dataclass(frozen=True)
class Kind:
    """Files of one format, written in one way; `protected` finds the bytes that have a checksum."""

    file_format: str
    properties: Mapping[str, str] = field(default_factory=dict)
    protected: Callable[[bytes], Container[int]] = lambda data: range(0)

    def __str__(self) -> str:
        return " ".join([self.file_format, *self.properties.values()])

    def write(self) -> bytes:
        sink = MemorySink(location=f"good.{self.file_format}")
        assert formatkit.write_file(sink, to_arrow(SCHEMA, ROWS), SCHEMA, self.file_format, properties=self.properties)
        assert sink.data is not None
        return sink.data


KINDS = [
    Kind("parquet", {"write.parquet.row-group-limit": "5", "write.parquet.page-row-limit": "2"}, parquet_pages),
    Kind("orc", {"write.orc.compression-codec": "none"}),
    Kind("orc", {"write.orc.compression-codec": "zlib"}),
    Kind("orc", {"write.orc.compression-codec": "zstd"}),
    Kind("orc", {"write.orc.compression-codec": "snappy"}),
    Kind("orc", {"write.orc.compression-codec": "lz4"}),
    Kind("avro", {"write.avro.compression-codec": "uncompressed"}),
    Kind("avro", {"write.avro.compression-codec": "gzip"}),
    Kind("avro", {"write.avro.compression-codec": "zstd"}),
    Kind("avro", {"write.avro.compression-codec": "snappy"}, avro_blocks),
    Kind("avro", {"write.avro.compression-codec": "bzip2"}),
    Kind("avro", {"write.avro.compression-codec": "xz"}),
    Kind("arrow"),
    Kind("arrow", {"write.arrow.layout": "stream"}),
    Kind("vortex", protected=all_bytes),
    Kind("lance", protected=all_bytes),
]


def answers(file_format: str, data: bytes) -> list[str]:
    """What all questions give, in brief."""
    scans = [formatkit.read_file(data, where, file_format=file_format) for where in QUESTIONS]
    rows = [comparable(from_arrow(scan.schema, scan.to_arrow())) for scan in scans]
    return [sha256(repr(found).encode()).hexdigest() for found in rows]


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_damage_is_noticed_or_does_no_harm(kind: Kind) -> None:
    print(f"DAMAGE_SEED={SEED}")  # shown if the test fails
    good = kind.write()
    right = answers(kind.file_format, good)
    cases = list(damages(good, Random(SEED), DAMAGES))
    outcomes = read_all(partial(answers, kind.file_format), cases)
    assert [(case.what, found.untyped) for case, found in zip(cases, outcomes, strict=True) if found.untyped] == []
    protected = kind.protected(good)
    wrong = [
        case.what
        for case, outcome in zip(cases, outcomes, strict=True)
        if case.place in protected and outcome.answer and outcome.answer[0] != right[0]
    ]
    assert wrong == []
    assert any(outcome.typed for outcome in outcomes)


def test_every_format_that_is_shipped_is_damaged() -> None:
    assert {kind.file_format for kind in KINDS} == set(default_registry().names())
