"""Whatever is wrong with a table's files, the error has a type, names the file, and leaves nothing open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import formatkit
from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import BatchStream, ReadResult
from formatkit.errors import (
    AmbiguousColumnError,
    ColumnNotFoundError,
    ContractViolationError,
    CorruptFileError,
    FileMissingError,
    FormatkitError,
    InvalidPredicateError,
    StorageError,
)
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.io import default_runtime
from formatkit.registry import FormatRegistry
from support.checks import RealTable, file_of

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "x", StringType()))
HANDLES = Path("/proc/self/fd")


@pytest.fixture
def table(tmp_path: Path) -> RealTable:
    # Long values, so that the pages hold more bytes than the footer.
    rows = [(number, f"{number}" * 200) for number in range(200)]
    return RealTable(tmp_path, [SCHEMA], [file_of(SCHEMA, *rows)], parquet={"row_group_size": 50})


@pytest.fixture
def path(table: RealTable) -> Path:
    return Path(table.files[0].location.removeprefix("file://"))


@pytest.fixture(autouse=True)
def no_handle_is_left() -> Iterator[None]:
    # The process has one ring, made when it is first asked about, and keeps it.
    assert default_runtime().io_uring
    before = len(list(HANDLES.iterdir()))
    yield
    assert len(list(HANDLES.iterdir())) <= before


def truncate(path: Path, keep: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "four bytes": lambda path: path.write_bytes(b"PAR1"),
    "first half only": lambda path: truncate(path, 0.5),
    "last byte lost": lambda path: truncate(path, 0.9999),
    "another format": lambda path: path.write_bytes(b"ORC" + bytes(2000)),
    "text": lambda path: path.write_text("id,x\n1,a\n" * 200),
    "no footer": lambda path: path.write_bytes(path.read_bytes()[:-300] + bytes(300)),
    "pages overwritten": lambda path: path.write_bytes(path.read_bytes()[:4] + bytes(9000) + path.read_bytes()[9004:]),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_damaged_file_is_corrupt_and_named(table: RealTable, path: Path, damage: str, threads: int) -> None:
    DAMAGES[damage](path)
    with pytest.raises(CorruptFileError) as caught:
        formatkit.scan(table.table, threads=threads).to_arrow()
    assert path.name in str(caught.value)
    with pytest.raises(CorruptFileError, match=path.name):
        formatkit.read_file(path, file_format="parquet").to_arrow()


def test_a_missing_file_is_missing_and_named(table: RealTable, path: Path) -> None:
    path.unlink()
    with pytest.raises(FileMissingError, match=path.name):
        formatkit.scan(table.table).to_arrow()


def test_a_folder_is_no_file(table: RealTable, path: Path) -> None:
    path.unlink()
    path.mkdir()
    with pytest.raises(StorageError, match=path.name):
        formatkit.scan(table.table).to_arrow()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"select": "missing"}, ColumnNotFoundError),
        ({"where": "missing = 1"}, ColumnNotFoundError),
        ({"where": "id = "}, InvalidPredicateError),
        ({"where": "id = 'text'"}, InvalidPredicateError),
        ({"where": "id like 'a%'"}, InvalidPredicateError),
    ],
    ids=str,
)
def test_wrong_questions_are_refused_while_planning(
    table: RealTable, arguments: dict[str, Any], error: type[FormatkitError]
) -> None:
    with pytest.raises(error):
        formatkit.scan(table.table, **arguments)


def test_an_ambiguous_name_is_refused(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "ID", LongType()))
    twins = RealTable(tmp_path, [schema], [file_of(schema, (1, 2))])
    with pytest.raises(AmbiguousColumnError):
        formatkit.scan(twins.table, where="Id = 1", case_sensitive=False)
    assert formatkit.scan(twins.table, where="ID = 2", select="id").to_arrow().to_pylist() == [{"id": 1}]


class TableReader:
    """A reader that promises record batches and returns tables."""

    def open(self, source: Any, options: Any) -> Any:
        file = ParquetFormat().reader().open(source, options)
        read = file.read

        def read_tables(options: Any) -> ReadResult[Any]:
            result = read(options)
            tables = (pa.Table.from_batches([batch]) for batch in result.batches)
            return ReadResult(batches=BatchStream(tables, result.batches.close), residual=result.residual)

        file.read = read_tables  # type: ignore[method-assign]
        return file


class WrongFormat(ParquetFormat):
    def reader(self) -> Any:
        return TableReader()


def test_a_plugin_that_breaks_its_promise_is_found_out(table: RealTable) -> None:
    registry = FormatRegistry()
    registry.register(WrongFormat())
    registry.register_batch(ArrowBatch())
    with pytest.raises(ContractViolationError, match="Table") as caught:
        formatkit.scan(table.table, registry=registry).to_arrow()
    assert "0.parquet" in str(caught.value)
