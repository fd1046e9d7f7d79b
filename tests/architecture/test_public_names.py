"""The names that users type. Changing a list here is a change that users notice, and needs an RFC."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import formatkit
import formatkit.contract
import formatkit.errors


def test_names_of_the_package() -> None:
    assert formatkit.__all__ == [
        "Delete",
        "FormatRegistry",
        "FormatkitError",
        "Insert",
        "IoRuntime",
        "MergeResult",
        "Report",
        "RewriteResult",
        "Scan",
        "Update",
        "UpsertResult",
        "WrittenFile",
        "__version__",
        "append",
        "clean_orphans",
        "default_registry",
        "delete",
        "load_table",
        "merge",
        "overwrite",
        "read_file",
        "rewrite",
        "scan",
        "upsert",
        "validate",
        "with_runtime",
        "write_file",
    ]


def test_names_of_the_contract() -> None:
    assert formatkit.contract.__all__ == [
        "DEFAULT_BATCH_ROWS",
        "METADATA_COLUMNS",
        "POS",
        "BatchStream",
        "ByteRange",
        "ByteSink",
        "ByteSource",
        "Capability",
        "ChunkStatistics",
        "ColumnMetrics",
        "DataBatch",
        "Encryption",
        "FileMetrics",
        "FormatFile",
        "FormatFileWriter",
        "FormatPlugin",
        "FormatReader",
        "FormatWriter",
        "Gate",
        "InjectedColumn",
        "Match",
        "MetricsCollector",
        "MetricsKind",
        "MetricsMode",
        "OpenOptions",
        "ReadOptions",
        "ReadResult",
        "SinkStream",
        "Split",
        "Step",
        "Variant",
        "VariantType",
        "WriteOptions",
        "WriteResult",
        "match",
        "schema_from_json",
        "schema_to_json",
    ]


@pytest.mark.parametrize(
    "module", [formatkit, formatkit.contract, formatkit.errors], ids=lambda module: module.__name__
)
def test_every_name_is_there_and_documented(module: object) -> None:
    for name in module.__all__:  # type: ignore[attr-defined]
        value = getattr(module, name)
        documented = not (inspect.isclass(value) or inspect.isfunction(value)) or inspect.getdoc(value)
        assert documented, name


def test_every_error_is_one_of_ours_and_public() -> None:
    classes = {
        name
        for name, each in vars(formatkit.errors).items()
        if inspect.isclass(each) and each.__module__ == "formatkit.errors"
    }
    assert classes == set(formatkit.errors.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        formatkit.nonsense  # noqa: B018


def test_the_signature_of_scan_is_the_one_that_users_rely_on() -> None:
    parameters = list(inspect.signature(formatkit.scan).parameters)
    assert parameters[:7] == ["table", "where", "select", "limit", "snapshot_id", "case_sensitive", "registry"]


@pytest.mark.parametrize(
    "program",
    [
        "import formatkit; formatkit.scan(None)",
        "import formatkit.scan; formatkit.scan(None)",
        "import formatkit.scan.tasks, formatkit; formatkit.scan(None)",
        "from formatkit import scan; scan(None)",
        "import formatkit; formatkit.read_file; formatkit.scan(None)",
        "from formatkit.scan import scan; scan(None)",
    ],
)
def test_scan_can_be_called_however_it_was_imported(program: str) -> None:
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "not callable" not in outcome.stderr
    assert "formatkit/scan/" in outcome.stderr
