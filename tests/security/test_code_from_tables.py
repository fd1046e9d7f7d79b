"""Nothing that comes with a table names code that is imported or run."""

from __future__ import annotations

import json
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.locations import ObjectStoreLocationProvider

import formatkit
from formatkit.cli.app import run
from formatkit.errors import ConfigurationError
from formatkit.integrations.pyiceberg import install
from formatkit.io import RuntimeFileIO
from formatkit.io.pyiceberg.trust import names_code
from support.canary import Canary, canary_in, metadata_with

ROWS = pa.table({"id": [1, 2, 3]})
FILE_IO_KEYS = ["py-io-impl", "formatkit.py-io-impl"]
PROVIDER = "write.py-location-provider.impl"
RUNTIME = {"py-io-impl": "formatkit.io.RuntimeFileIO"}


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Canary]:
    with canary_in(tmp_path / "canary") as made:
        yield made


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}


@pytest.fixture
def catalog(settings: dict[str, str]) -> Iterator[Catalog]:
    with load_catalog("shop", **settings) as made:
        made.create_namespace("db")
        made.create_table("db.t", ROWS.schema)
        formatkit.append(made.load_table("db.t"), ROWS)
        yield made


@pytest.fixture
def location(catalog: Catalog) -> str:
    return catalog.load_table("db.t").metadata_location


def poison(catalog: Catalog, properties: dict[str, str]) -> None:
    """What somebody does who may write the table: another metadata file, with other properties."""
    location = catalog.load_table("db.t").metadata_location
    catalog.drop_table("db.t")
    assert isinstance(catalog, SqlCatalog)
    poisoned = metadata_with(location, properties, name="00009-4c1b1f9c-5e1b-4f0f-8f5a-6f4c8a7b9d3e")
    with catalog.engine.begin() as connection:
        row = ("shop", "db", "t", poisoned, None, "TABLE")
        connection.exec_driver_sql("insert into iceberg_tables values (?, ?, ?, ?, ?, ?)", row)


@pytest.mark.parametrize("key", [*FILE_IO_KEYS, "s3.retry-strategy-impl", "py-later-impl", "formatkit.later.class"])
def test_a_metadata_file_names_no_code_to_load_table(location: str, canary: Canary, key: str) -> None:
    evil = metadata_with(location, {**RUNTIME, key: canary.storage})
    with pytest.raises(ConfigurationError, match="names code") as caught:
        formatkit.load_table(evil)
    for word in (key, canary.storage, evil, "pass the property yourself"):
        assert word in str(caught.value)
    assert not canary.ran


def test_no_program_is_run_by_the_metadata_file_of_the_first_finding(location: str, tmp_path: Path) -> None:
    trace = tmp_path / "it ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch '{trace}'\n")
    program.chmod(0o755)
    evil = metadata_with(location, {str(program): "", "py-io-impl": "subprocess.Popen"})
    command = [sys.executable, "-m", "formatkit.cli", "count", evil]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "'py-io-impl' to 'subprocess.Popen'" in done.stderr
    assert not trace.exists()


@pytest.mark.parametrize("key", ["io-impl", "write.location-provider.impl", PROVIDER, "metrics-reporter-impl"])
def test_a_table_that_names_classes_for_others_is_read(location: str, canary: Canary, key: str) -> None:
    table = formatkit.load_table(metadata_with(location, {key: canary.anything}))
    assert formatkit.scan(table).count() == 3
    assert not canary.ran


@pytest.mark.parametrize(
    "properties",
    [
        RUNTIME,
        {**RUNTIME, "formatkit.py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"},
        {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"},
        {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"},
    ],
    ids=str,
)
def test_a_metadata_file_may_name_the_classes_of_pyiceberg_and_formatkit(
    location: str, properties: dict[str, str]
) -> None:
    table = formatkit.load_table(metadata_with(location, properties))
    loaded = f"{type(table.io).__module__}.{type(table.io).__qualname__}"
    assert loaded.rpartition(".")[2] == properties["py-io-impl"].rpartition(".")[2]
    assert formatkit.scan(table).count() == 3


@pytest.mark.parametrize("key", FILE_IO_KEYS)
def test_the_caller_of_load_table_may_name_any_class(location: str, canary: Canary, key: str) -> None:
    given = {**RUNTIME, key: canary.storage}
    table = formatkit.load_table(metadata_with(location, {key: "somebody.Else"}), given)
    assert formatkit.scan(table).count() == 3
    assert canary.ran


def test_a_table_cannot_redirect_the_storage_of_the_caller(location: str, caplog: pytest.LogCaptureFixture) -> None:
    given = {"s3.access-key-id": "key", "s3.secret-access-key": "secret", "s3.endpoint": "https://mine"}
    hostile = {
        "s3.endpoint": "http://evil",
        "s3.proxy-uri": "http://evil",
        "s3.signer": "S3V4RestSigner",
        "s3.signer.uri": "http://evil",
        "s3.profile-name": "admin",
        "adls.connection-string": "evil",
        "gcs.service.host": "http://evil",
        "gcs.session-kwargs": "{}",
        "hf.endpoint": "http://evil",
        "uri": "http://evil",
        "token": "evil",
        "DEFAULT_SCHEME": "s3",
        "header.Authorization": "evil",
    }
    table = formatkit.load_table(metadata_with(location, hostile), given)
    assert table.io.properties == given
    assert "s3.signer.uri" in caplog.text
    assert "s3.endpoint" not in caplog.text  # the caller has said it


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("py-io-impl", True),
        ("py-catalog-impl", True),
        ("auth.impl", True),
        ("s3.retry-strategy-impl", True),
        ("write.py-location-provider.impl", True),
        ("encryption.kms-impl", True),
        ("s3.signer_class", True),
        ("later.client-factory", True),
        ("write.format.default", False),
        ("classification", False),
        ("simple", False),
    ],
)
def test_keys_that_name_code_are_known_by_how_they_end(key: str, expected: bool) -> None:
    assert names_code(key) is expected


@pytest.mark.parametrize("key", FILE_IO_KEYS)
@pytest.mark.parametrize("way", ["scan", "count", "append"])
def test_a_table_of_a_catalog_names_no_code_to_the_command_line(
    catalog: Catalog,
    settings: dict[str, str],
    canary: Canary,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    key: str,
    way: str,
) -> None:
    poison(catalog, {**RUNTIME, key: canary.storage})
    rows = tmp_path / "rows.parquet"
    formatkit.write_file(rows, ROWS)
    more = [str(rows)] if way == "append" else []
    access = [part for name, value in settings.items() for part in ("-p", f"{name}={value}")]
    assert run([way, "db.t", *more, "--catalog", "shop", *access]) == 2
    assert "names code" in capsys.readouterr().err
    assert not canary.ran


def test_the_command_line_believes_the_configuration_of_the_catalog(
    catalog: Catalog, settings: dict[str, str], canary: Canary
) -> None:
    poison(catalog, {"py-io-impl": canary.storage})
    access = [part for name, value in settings.items() for part in ("-p", f"{name}={value}")]
    assert run(["count", "db.t", "--catalog", "shop", *access, "-p", f"py-io-impl={canary.storage}"]) == 0
    assert canary.ran


@pytest.mark.parametrize("operation", ["append", "overwrite", "delete", "upsert", "rewrite", "writer"])
def test_a_table_names_no_location_provider_to_operations(catalog: Catalog, canary: Canary, operation: str) -> None:
    poison(catalog, {PROVIDER: canary.provider})
    table = catalog.load_table("db.t")
    with pytest.raises(ConfigurationError, match=r"write\.py-location-provider\.impl"):
        operate(table, operation)
    assert not canary.ran
    assert formatkit.scan(catalog.load_table("db.t")).count() == 3


def operate(table: Table, operation: str) -> Any:
    match operation:
        case "append":
            return formatkit.append(table, ROWS)
        case "overwrite":
            return formatkit.overwrite(table, ROWS)
        case "delete":
            return formatkit.delete(table, "id = 1")
        case "upsert":
            return formatkit.upsert(table, ROWS, ["id"])
        case "rewrite":
            return formatkit.rewrite(table, all_files=True)
        case _:
            return formatkit.write.TableWriter(table.metadata, table.io)


def test_the_catalog_may_name_a_location_provider(
    catalog: Catalog, settings: dict[str, str], canary: Canary, tmp_path: Path
) -> None:
    poison(catalog, {PROVIDER: canary.provider})
    with load_catalog("shop", **settings, **{PROVIDER: canary.provider}) as trusting:
        formatkit.append(trusting.load_table("db.t"), ROWS)
        assert formatkit.scan(trusting.load_table("db.t")).count() == 6
    assert canary.ran


def test_a_table_may_name_the_location_providers_of_pyiceberg(catalog: Catalog) -> None:
    poison(catalog, {PROVIDER: f"{ObjectStoreLocationProvider.__module__}.ObjectStoreLocationProvider"})
    assert formatkit.append(catalog.load_table("db.t"), ROWS) is not None


@pytest.mark.parametrize("key", FILE_IO_KEYS)
def test_with_formatkit_inside_pyiceberg_a_table_names_no_storage(catalog: Catalog, canary: Canary, key: str) -> None:
    location = catalog.load_table("db.t").metadata_location
    poison(catalog, {**RUNTIME, key: canary.storage})
    with install():
        with pytest.raises(ConfigurationError, match="names code"):
            catalog.load_table("db.t")
        with pytest.raises(ConfigurationError, match="names code"):
            StaticTable.from_metadata(metadata_with(location, {**RUNTIME, key: canary.storage}))
    assert not canary.ran


def test_with_formatkit_inside_pyiceberg_a_table_names_no_location_provider(catalog: Catalog, canary: Canary) -> None:
    poison(catalog, {PROVIDER: canary.provider})
    table = catalog.load_table("db.t")
    with install():
        for change in (lambda: table.append(ROWS), lambda: table.delete("id = 1"), table.location_provider):
            with pytest.raises(ConfigurationError, match=r"write\.py-location-provider\.impl"):
                change()
        with pytest.raises(ConfigurationError), table.transaction() as transaction:
            transaction.set_properties({"a": "b"})
    assert not canary.ran


def test_with_formatkit_inside_pyiceberg_the_catalog_may_name_a_location_provider(
    catalog: Catalog, settings: dict[str, str], canary: Canary
) -> None:
    poison(catalog, {PROVIDER: canary.provider})
    with install(), load_catalog("shop", **settings, **{PROVIDER: canary.provider}) as trusting:
        table = trusting.load_table("db.t")
        table.append(ROWS)
        assert table.scan().count() == 6
    assert canary.ran


@pytest.mark.parametrize("key", FILE_IO_KEYS)
def test_a_table_of_a_catalog_names_no_code_to_spark(
    catalog: Catalog, settings: dict[str, str], canary: Canary, key: str
) -> None:
    pytest.importorskip("pyspark")
    from formatkit.spark.catalogs import pin_table
    from formatkit.spark.options import parse_options

    poison(catalog, {**RUNTIME, key: canary.storage, "s3.endpoint": "http://evil"})
    with pytest.raises(ConfigurationError, match="names code"):
        pin_table(parse_options({"path": "db.t", "catalog": "shop"}), {"shop": settings})
    assert not canary.ran


def test_spark_sends_no_storage_settings_of_a_table_to_executors(catalog: Catalog, settings: dict[str, str]) -> None:
    pytest.importorskip("pyspark")
    from formatkit.spark.catalogs import pin_table
    from formatkit.spark.options import parse_options

    poison(catalog, {"s3.endpoint": "http://evil", PROVIDER: "evil.Provider"})
    pinned = pin_table(parse_options({"path": "db.t", "catalog": "shop"}), {"shop": settings})
    assert not {"s3.endpoint", PROVIDER} & {*pinned.properties}
    assert formatkit.scan(pinned.load()).count() == 3


class _Server(BaseHTTPRequestHandler):
    """A catalog of the REST protocol that answers what the test says."""

    answers: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        body = json.dumps(self.answers[self.path.partition("?")[0]]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("where", ["overrides", "defaults"])
@pytest.mark.parametrize("answer", ["py-io-impl", "auth"])
def test_with_formatkit_inside_pyiceberg_a_rest_server_names_no_code(
    server: str, canary: Canary, where: str, answer: str
) -> None:
    auth = {"type": "custom", "impl": canary.anything}
    said = {"auth": auth} if answer == "auth" else {answer: canary.storage}
    _Server.answers = {"/v1/config": {"defaults": {}, "overrides": {}, where: said}}
    with install(), pytest.raises(ConfigurationError, match="names code"):
        load_catalog("shop", type="rest", uri=server)
    assert not canary.ran


@pytest.mark.parametrize("where", ["overrides", "defaults"])
@pytest.mark.parametrize("answer", ["py-io-impl", "formatkit.py-io-impl", "auth"])
@pytest.mark.parametrize("kind", [["-p", "type=rest"], []])
def test_a_rest_server_names_no_code_to_the_command_line(
    server: str,
    location: str,
    canary: Canary,
    where: str,
    answer: str,
    kind: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    auth = {"type": "custom", "impl": canary.anything}
    said = {"auth": auth} if answer == "auth" else {**RUNTIME, answer: canary.storage}
    metadata = json.loads(Path(location.removeprefix("file://")).read_text())
    _Server.answers = {
        "/v1/config": {"defaults": {}, "overrides": {}, where: said},
        "/v1/namespaces/db/tables/t": {"metadata-location": location, "metadata": metadata, "config": {}},
    }
    assert run(["count", "db.t", *kind, "-p", f"uri={server}"]) == 2
    assert "names code" in capsys.readouterr().err
    assert not canary.ran


def test_a_rest_server_that_is_silent_does_not_hang_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert run(["count", "db.t", "-p", f"uri={uri}", "-p", "formatkit.io.timeout-seconds=0.2"]) == 2
    assert "cannot open table db.t" in capsys.readouterr().err


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"], ids=["header", "body"])
def test_a_rest_server_that_sends_a_byte_now_and_then_does_not_hang_the_command_line(
    before: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as slow:
        server = threading.Thread(target=_send_byte_by_byte, args=(slow, before), daemon=True)
        server.start()
        uri = f"http://127.0.0.1:{slow.getsockname()[1]}"
        assert run(["count", "db.t", "-p", f"uri={uri}", "-p", "formatkit.io.timeout-seconds=0.5"]) == 2
        assert server.is_alive()
    assert "has not answered in 0.5 s" in capsys.readouterr().err


def _send_byte_by_byte(server: socket.socket, before: bytes) -> None:
    connection, _ = server.accept()
    with connection, suppress(OSError):
        connection.recv(1 << 16)
        connection.sendall(before)
        for byte in b"HTTP/1.1 200 OK \r\n" * 20:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)


@pytest.mark.parametrize("where", ["overrides", "defaults"])
def test_a_rest_server_names_no_code_to_spark(server: str, canary: Canary, where: str) -> None:
    from formatkit.spark.catalogs import pin_table
    from formatkit.spark.options import parse_options

    _Server.answers = {"/v1/config": {"defaults": {}, "overrides": {}, where: {"py-io-impl": canary.storage}}}
    with pytest.raises(ConfigurationError, match="names code"):
        pin_table(parse_options({"path": "db.t", "catalog": "shop"}), {"shop": {"type": "rest", "uri": server}})
    assert not canary.ran


def test_the_user_and_a_rest_server_may_name_the_classes_that_are_listed(
    server: str, location: str, canary: Canary, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = json.loads(Path(location.removeprefix("file://")).read_text())
    _Server.answers = {
        "/v1/config": {"defaults": {}, "overrides": {"py-io-impl": "formatkit.io.RuntimeFileIO"}},
        "/v1/namespaces/db/tables/t": {"metadata-location": location, "metadata": metadata, "config": {}},
    }
    assert run(["count", "db.t", "-p", "type=rest", "-p", f"uri={server}"]) == 0
    assert capsys.readouterr().out == "3\n"
    _Server.answers["/v1/config"] = {"defaults": {}, "overrides": {}}
    assert run(["count", "db.t", "-p", "type=rest", "-p", f"uri={server}", "-p", f"py-io-impl={canary.storage}"]) == 0
    assert canary.ran


@pytest.mark.parametrize("where", ["properties", "config", "storage-credentials"])
def test_with_formatkit_inside_pyiceberg_the_table_of_a_rest_server_names_no_code(
    server: str, location: str, canary: Canary, where: str
) -> None:
    metadata = json.loads(Path(location.removeprefix("file://")).read_text())
    said = {"py-io-impl": canary.storage}
    answer: dict[str, Any] = {"metadata-location": location, "metadata": metadata, "config": {"s3.region": "here"}}
    metadata["properties"] = {"s3.endpoint": "http://evil"}
    _Server.answers = {"/v1/config": {"defaults": {}, "overrides": {}}, "/v1/namespaces/db/tables/t": answer}
    with install(), load_catalog("shop", type="rest", uri=server) as catalog:
        table = catalog.load_table("db.t")
        assert table.properties == {"s3.endpoint": "http://evil"}
        assert table.io.properties["s3.region"] == "here"
        assert "s3.endpoint" not in table.io.properties
        if where == "properties":
            metadata["properties"] |= said
        elif where == "config":
            answer["config"] |= said
        else:
            answer[where] = [{"prefix": location, "config": said}]
        with pytest.raises(ConfigurationError, match="names code"):
            catalog.load_table("db.t")
    assert not canary.ran


def test_pyiceberg_has_its_own_loaders_again_afterwards() -> None:
    before = (vars(Catalog)["_load_file_io"], vars(Table)["location_provider"], vars(StaticTable)["from_metadata"])
    with install():
        assert vars(Catalog)["_load_file_io"] is not before[0]
    assert before == (
        vars(Catalog)["_load_file_io"],
        vars(Table)["location_provider"],
        vars(StaticTable)["from_metadata"],
    )


def test_a_runtime_file_io_imports_nothing_that_the_program_has_not_imported(canary: Canary, tmp_path: Path) -> None:
    # This is how pyiceberg's catalogs make one, with the properties of the table in it.
    made = RuntimeFileIO({"formatkit.py-io-impl": canary.storage})
    with pytest.raises(ConfigurationError, match="import its module first"):
        made.new_input(str(tmp_path / "file"))
    with pytest.raises(ConfigurationError, match="import its module first"):
        pickle.dumps(made)
    assert not canary.ran
    with pytest.raises(ConfigurationError, match="no FileIO"):
        RuntimeFileIO({"formatkit.py-io-impl": "subprocess.Popen"}).new_input(str(tmp_path / "file"))


def test_a_pickled_runtime_file_io_brings_its_class_along(canary: Canary, tmp_path: Path) -> None:
    __import__(canary.module)
    pickled = pickle.dumps(RuntimeFileIO({"formatkit.py-io-impl": canary.storage}))
    del sys.modules[canary.module]
    (tmp_path / "file").write_bytes(b"abc")
    with pickle.loads(pickled).new_input(str(tmp_path / "file")).open() as stream:
        assert stream.read() == b"abc"


def test_names_of_file_formats_in_a_manifest_import_nothing(catalog: Catalog, canary: Canary) -> None:
    with pytest.raises(formatkit.errors.FormatNotRegisteredError):
        formatkit.read_file(b"", file_format=f"{canary.module}:Storage").to_arrow()
    poison(catalog, {"write.format.default": f"{canary.module}:Storage", "write.delete.format.default": canary.storage})
    with pytest.raises(formatkit.errors.FormatNotRegisteredError):
        formatkit.append(catalog.load_table("db.t"), ROWS)
    assert not canary.ran


def test_a_name_mapping_with_names_of_classes_imports_nothing(location: str, canary: Canary) -> None:
    mapping = json.dumps([{"field-id": 1, "names": [canary.storage, "id"]}])
    table = formatkit.load_table(metadata_with(location, {"schema.name-mapping.default": mapping}))
    assert formatkit.scan(table).count() == 3
    assert not canary.ran
