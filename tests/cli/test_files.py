from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema

from support.shop import Command, Shop


def test_formats_lists_what_is_installed(command: Command) -> None:
    outcome = command("formats")
    assert outcome.code == 0
    assert "parquet" in outcome.out
    assert "pyarrow.RecordBatch" in outcome.out


def test_formats_as_json_tells_the_capabilities(command: Command) -> None:
    document = command("formats", "--json").document
    parquet = next(each for each in document["formats"] if each["format"] == "parquet")
    assert "split" in parquet["capabilities"]
    assert document["failures"] == []


def test_inspect_shows_ids_and_types(command: Command, shop: Shop) -> None:
    outcome = command("inspect", shop.data_file)
    assert outcome.code == 0
    assert ["1", "Id", "long"] in [line.split() for line in outcome.out.splitlines()]


def test_inspect_as_json_holds_an_iceberg_schema(command: Command, shop: Shop) -> None:
    document = command("inspect", shop.data_file, "--json").document
    schema = Schema.model_validate(document["schema"])
    assert [field.name for field in schema.fields] == ["Id", "name"]
    assert document["rows"] == 50
    assert document["size_bytes"] == Path(shop.data_file).stat().st_size


def test_inspect_says_that_a_file_stores_no_ids(command: Command, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"a": [1], "s": [{"x": 1}]}), foreign)
    outcome = command("inspect", str(foreign))
    assert "name mapping" in outcome.out
    assert ["-", "x", "long"] in [line.split() for line in outcome.out.splitlines()]


def test_inspect_can_be_told_the_format(command: Command, shop: Shop, tmp_path: Path) -> None:
    unnamed = tmp_path / "unnamed"
    unnamed.write_bytes(Path(shop.data_file).read_bytes())
    assert command("inspect", str(unnamed), "--format", "parquet").code == 0
    assert command("inspect", str(unnamed)).code == 0


@pytest.mark.parametrize(
    ("content", "arguments", "complaint"),
    [
        (None, (), "no such file"),
        (b"", (), "cannot tell the format"),
        (b"PAR1 and then nothing of the kind", (), "Parquet"),
        (b"anything", ("--format", "nonsense"), "nonsense"),
    ],
)
def test_inspect_refuses_in_one_line(
    command: Command, tmp_path: Path, content: bytes | None, arguments: tuple[str, ...], complaint: str
) -> None:
    path = tmp_path / "data"
    if content is not None:
        path.write_bytes(content)
    outcome = command("inspect", str(path), *arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert complaint in outcome.err
