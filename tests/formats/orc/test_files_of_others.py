"""ORC files of other writers that Java, pyarrow and pyorc read, made by bytes where no writer here makes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import GeographyType, GeometryType

from formatkit.batches.compiled.loading import Payback
from formatkit.contract import ReadOptions
from formatkit.errors import CorruptFileError
from formatkit.formats.orc import column_decoding
from formatkit.formats.orc.compression import Codec, CompressionError, decompress
from formatkit.formats.orc.protobuf import encode
from support.mutations import protobuf
from support.mutations.orc_file import OrcFile
from support.mutations.tree import Node
from support.orc_files import foreign, open_bytes, pyorc_bytes, read_rows

BROTLI = 6
DECIMAL, GEOMETRY, GEOGRAPHY = 14, 19, 20
TABLE = pa.table({"n": range(50), "t": [f"text {n % 5}" for n in range(50)], "l": [[n] * (n % 3) for n in range(50)]})


@pytest.fixture(params=["compiled", "pyarrow"])
def _decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = -1 if request.param == "compiled" else 1 << 60
    monkeypatch.setattr(column_decoding, "PAYBACK", Payback("formatkit.formats.orc.kernels", limit))


def without(node: Node, *keys: str) -> None:
    node.value = [child for child in node.value if child.key not in keys]


@pytest.mark.usefixtures("_decoder")
@pytest.mark.parametrize("codec", ["zlib", "snappy"])
@pytest.mark.parametrize("chunk", [b"\x00\x00\x00", b"\x01\x00\x00"])
def test_streams_with_empty_chunks_are_read(codec: str, chunk: bytes) -> None:
    file = OrcFile(foreign(TABLE, compression=codec))
    for stripe in file.stripes:
        stripe.streams = [chunk + stream + chunk for stream in stripe.streams]
    assert read_rows(open_bytes(file.to_bytes())) == TABLE.to_pylist()


def test_brotli_is_read() -> None:
    file = OrcFile(foreign(TABLE, compression="zlib"))
    file.postscript["compression"].value = BROTLI
    for stripe in file.stripes:
        stripe.streams = [brotli_chunk(zlib_content(stream)) for stream in stripe.streams]
    data = file.to_bytes()
    assert read_rows(open_bytes(data)) == TABLE.to_pylist()
    with pytest.raises(CompressionError, match="more than 1000 bytes"):
        decompress(memoryview(brotli_chunk(bytes(1001))), Codec.BROTLI, 1000)
    with pytest.raises(CompressionError, match="BROTLI"):
        decompress(memoryview(b"\x06\x00\x00abc"), Codec.BROTLI, 1000)


def brotli_chunk(content: bytes) -> bytes:
    stored = pa.Codec("brotli").compress(content, asbytes=True)
    return (len(stored) << 1).to_bytes(3, "little") + stored


def zlib_content(stream: bytes) -> bytes:
    return decompress(memoryview(stream), Codec.ZLIB, 1 << 18)


@pytest.mark.parametrize("absent", [("magic",), ("magic", "version"), ("magic", "version", "writerVersion")])
def test_a_postscript_without_magic_is_read_if_the_file_begins_with_it(absent: tuple[str, ...]) -> None:
    file = OrcFile(foreign(TABLE))
    without(file.postscript, *absent)
    data = file.to_bytes()
    assert read_rows(open_bytes(data)) == TABLE.to_pylist()
    with pytest.raises(CorruptFileError, match="is not an ORC file"):
        open_bytes(b"ORD" + data[3:])


@pytest.mark.parametrize("rows", [0, 1, 49, 51, 1 << 40, None])
def test_the_stripes_say_how_many_rows_there_are(rows: int | None) -> None:
    file = OrcFile(foreign(TABLE))
    if rows is None:
        without(file.footer, "numberOfRows")
    else:
        file.footer["numberOfRows"].value = rows
    opened = open_bytes(file.to_bytes())
    assert opened.row_count == 50
    assert read_rows(opened) == TABLE.to_pylist()


@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "no statistics"])
@pytest.mark.parametrize("rows", [49, 51, 0])
def test_stripes_that_nothing_else_agrees_with_are_refused(rows: int, statistics: bool) -> None:
    file = OrcFile(foreign(TABLE))
    next(child for child in file.footer.value if child.key == "stripes")["numberOfRows"].value = rows
    if not statistics:
        without(file.footer, "statistics")
    with pytest.raises(CorruptFileError, match=f"its footer claims 50 rows, its stripes claim {rows}"):
        open_bytes(file.to_bytes())


def as_decimals(data: bytes, *types: int, precision: int = 9, scale: int = 2) -> bytes:
    """A file of version UNSTABLE-PRE-2.0 whose longs are decimals, which are stored alike but called direct."""
    file = OrcFile(data)
    kinds = [child for child in file.footer.value if child.key == "types"]
    for number in types:
        without(kinds[number], "kind")
        digits = encode([(1, DECIMAL), (5, precision), (6, scale)])
        kinds[number].value += protobuf.parse(digits, "Type").value
        for stripe in file.stripes:
            encodings = [child for child in stripe.footer.value if child.key == "columns"]
            assert encodings[number]["kind"].value == 2
            encodings[number]["kind"].value = 0
    file.postscript["version"].value = bytes((1,)) + (9999 & 0x7F | 0x80).to_bytes() + (9999 >> 7).to_bytes()
    without(file.footer, "statistics")
    file.metadata.value = []
    return file.to_bytes()


@pytest.mark.usefixtures("_decoder")
def test_decimals_in_runs_of_integers_are_read() -> None:
    numbers = [n * n * (-1) ** n if n % 7 else None for n in range(2000)]
    rows = [(n, [n, n], (n,)) for n in numbers]
    data = pyorc_bytes("struct<d:bigint,l:array<bigint>,s:struct<d:bigint>>", rows)
    file = open_bytes(as_decimals(data, 1, 3, 5))

    def decimal(number: int | None) -> Decimal | None:
        return None if number is None else Decimal(number).scaleb(-2)

    expected: list[dict[str, Any]] = [{"d": d, "l": [d, d], "s": {"d": d}} for d in map(decimal, numbers)]
    assert read_rows(file) == expected
    found = read_rows(file, where="d >= 100.5")
    assert found == [row for row in expected if row["d"] is not None and row["d"] >= Decimal("100.5")]


@pytest.mark.usefixtures("_decoder")
def test_decimals_of_more_than_18_digits_are_stored_one_by_one_in_any_version() -> None:
    values = [Decimal(n).scaleb(-2) for n in range(-50, 50)]
    data = foreign(pa.table({"d": pa.array(values, pa.decimal128(20, 2))}))
    file = OrcFile(data)
    file.postscript["version"].value = bytes((1,)) + (9999 & 0x7F | 0x80).to_bytes() + (9999 >> 7).to_bytes()
    assert [row["d"] for row in read_rows(open_bytes(file.to_bytes()))] == values


def test_columns_that_compiled_code_gives_up_are_decoded_on_several_threads() -> None:
    """Decimals of more than 64 bits that are stored with fewer decimal places than their type has, as Java does it."""
    count, names = 100_000, [f"d{number}" for number in range(8)]
    columns = [[(10**20 + number * 10**18 + row) * 10**10 for row in range(count)] for number in range(len(names))]
    whole = pa.decimal128(38, 0)
    table = pa.table(
        [pa.array([Decimal(value // 10**10) for value in column], whole) for column in columns], names=names
    )
    file = OrcFile(foreign(table, compression="uncompressed", stripe_size=1 << 30))
    for kind in [child for child in file.footer.value if child.key == "types"][1:]:
        assert (kind["precision"].value, kind["scale"].value) == (38, 0)
        kind["scale"].value = 10
    opened = open_bytes(file.to_bytes())
    with opened.read(ReadOptions(projection=opened.schema, threads=4)).batches as batches:
        found = pa.Table.from_batches(batches)
    for name, column in zip(names, columns, strict=True):
        assert found[name].type == pa.decimal128(38, 10)
        expected = pa.array([Decimal(value) for value in column], whole)
        assert found[name].combine_chunks().buffers()[1] == expected.buffers()[1]


@pytest.mark.usefixtures("_decoder")
@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([(1, GEOMETRY)], GeometryType()),
        ([(1, GEOMETRY), (8, b"EPSG:4326")], GeometryType("EPSG:4326")),
        ([(1, GEOGRAPHY)], GeographyType()),
        ([(1, GEOGRAPHY), (8, b"EPSG:4326"), (9, 4)], GeographyType("EPSG:4326", "karney")),
    ],
)
def test_geometries_of_orc_itself_are_those_of_iceberg(stored: list[tuple[int, int | bytes]], expected: Any) -> None:
    """Such a column has the streams of a binary one."""
    shapes = [b"\x01\x01\x00\x00\x00" + bytes((n,)) * 16 for n in range(5)]
    file = OrcFile(foreign(pa.table({"g": shapes, "l": [[shape, None] for shape in shapes]})))
    kinds = [child for child in file.footer.value if child.key == "types"]
    for number in (1, 3):
        kinds[number].value = protobuf.parse(encode(stored), "Type").value
    opened = open_bytes(file.to_bytes())
    assert opened.schema.find_type("g") == opened.schema.find_type("l.element") == expected
    assert read_rows(opened) == [{"g": shape, "l": [shape, None]} for shape in shapes]
    assert len(read_rows(opened, where="g is not null")) == 5
