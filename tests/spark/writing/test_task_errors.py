"""An error of a task is raised on the driver as what it is, not as a text of Spark's."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType, NestedField, UUIDType
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import formatkit
import formatkit.spark
from formatkit.errors import CorruptFileError, FileMissingError, FormatkitError, InvalidDataError
from formatkit.spark.writing.task_errors import error_in, noted_errors, typed_errors
from support.written_tables import data_files, files_on_disk, new_table

COLUMNS = (NestedField(1, "id", LongType()), NestedField(2, "tag", UUIDType()))


class OfPluginError(CorruptFileError):
    """A class that the driver does not have."""


@pytest.mark.parametrize("kind", [FileMissingError, OfPluginError])
def test_an_error_survives_as_text(kind: type[FormatkitError]) -> None:
    with pytest.raises(kind) as caught, noted_errors():
        raise kind('line one\nline "two"', location="s3://bucket/ä", offset=7, other=object())
    text = f"Task 3 failed\n  Traceback\n{chr(10).join(caught.value.__notes__)}\n\n\tat org.apache.spark"
    with pytest.raises(kind.__mro__[0 if kind is FileMissingError else 1]) as found, typed_errors():
        raise RuntimeError(text)
    assert isinstance(found.value, FormatkitError)
    assert found.value.message == 'line one\nline "two"'
    assert vars(found.value)["location"] == "s3://bucket/ä"
    assert vars(found.value)["offset"] == 7
    assert isinstance(found.value.__cause__, RuntimeError)
    assert type(pickle.loads(pickle.dumps(found.value))) is type(found.value)


@pytest.mark.parametrize("text", ["", "formatkit-error: {", 'formatkit-error: {"class": "os"}', "formatkit-error: {}"])
def test_other_texts_are_left_alone(text: str) -> None:
    assert error_in(text) is None
    with pytest.raises(RuntimeError), typed_errors():
        raise RuntimeError(text)


def test_writes_and_merges_raise_what_their_tasks_raised(spark: SparkSession, catalog: SqlCatalog) -> None:
    table = new_table(catalog, *COLUMNS)
    frame = spark.createDataFrame([(1, "no uuid")], "id bigint, tag string")
    with pytest.raises(InvalidDataError, match="column 'tag' is uuid"):
        formatkit.spark.write(frame, table)
    with pytest.raises(InvalidDataError, match="column 'tag' is uuid"):
        formatkit.spark.merge(frame, table, "id")
    assert files_on_disk(table) == []
    without_tag = spark.range(1, 9, 1, 1).selectExpr("id", "cast(null as string) tag")
    formatkit.spark.write(without_tag, table)
    (file,) = data_files(table)
    Path(file.file_path.removeprefix("file://")).unlink()
    with pytest.raises(FileMissingError) as missing:
        formatkit.spark.write(without_tag, table, "overwrite", where="id < 5")
    assert vars(missing.value)["location"] == file.file_path


def test_statements_name_what_their_tasks_raised(spark: SparkSession, catalog: SqlCatalog) -> None:
    table = new_table(catalog, *COLUMNS)
    formatkit.spark.register(spark, fk=catalog)
    with pytest.raises(AnalysisException, match=r"^InvalidDataError: column 'tag' is uuid"):
        spark.sql("insert into fk.db.written values (1, 'no uuid')")
    spark.sql("insert into fk.db.written values (1, null)")
    with pytest.raises(AnalysisException, match=r"^InvalidDataError: column 'tag' is uuid"):
        spark.sql("update fk.db.written set tag = 'no uuid'")
    assert formatkit.scan(table.refresh()).to_arrow().to_pylist() == [{"id": 1, "tag": None}]
