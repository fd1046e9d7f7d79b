"""Commits through a REST catalog: a small server of the real protocol, in front of a SQL catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pydantic import TypeAdapter
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.snapshots import Operation

from formatkit.errors import CommitStateUnknownError
from support.commits import (
    append,
    change,
    data_file,
    deletion_vector,
    live_files,
    metadata_files,
    new_sql_catalog,
    new_table,
)


@dataclass
class Server:
    """What the server was asked for, and which answers it is told to lose or to replace."""

    catalog: SqlCatalog
    commits: list[dict[str, Any]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    lands: bool = False


def handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.endswith("/v1/config"):
                self.answer(200, {"defaults": {}, "overrides": {}})
            else:
                self.answer(200, self.table())

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.commits.append(request)
            status = server.statuses.pop(0) if server.statuses else 200
            if status == 200 or server.lands:
                parsed = TypeAdapter(CommitTableRequest).validate_python(request)
                try:
                    server.catalog.commit_table(server.catalog.load_table("db.t"), parsed.requirements, parsed.updates)
                except CommitFailedException as error:
                    self.answer(409, {"error": {"message": str(error), "type": "CommitFailedException", "code": 409}})
                    return
            if status == 200:
                self.answer(200, self.table())
            else:
                self.answer(status, {"error": {"message": "trouble", "type": "Trouble", "code": status}})

        def table(self) -> dict[str, Any]:
            table = server.catalog.load_table("db.t")
            return {
                "metadata-location": table.metadata_location,
                "metadata": json.loads(table.metadata.model_dump_json()),
                "config": {},
            }

        def answer(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with closing(new_sql_catalog(tmp_path)) as catalog:
        yield Server(catalog)


@pytest.fixture
def rest(server: Server) -> Iterator[RestCatalog]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(server)) as http:
        thread = Thread(target=http.serve_forever, daemon=True)
        thread.start()
        catalog = RestCatalog("rest", uri=f"http://127.0.0.1:{http.server_port}")
        yield catalog
        catalog.close()
        http.shutdown()
        thread.join()


def opened(server: Server, rest: RestCatalog, version: int) -> Table:
    new_table(server.catalog, version)
    table: Table = rest.load_table("db.t")
    return table


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_commit_is_one_request_of_two_updates(server: Server, rest: RestCatalog, version: int) -> None:
    table = opened(server, rest, version)
    snapshot = append(table, data_file(table, "a", 5))
    [request] = server.commits
    assert [each["action"] for each in request["updates"]] == ["add-snapshot", "set-snapshot-ref"]
    assert {each["type"] for each in request["requirements"]} == {"assert-table-uuid", "assert-ref-snapshot-id"}
    sent = request["updates"][0]["snapshot"]
    assert sent["snapshot-id"] == snapshot.snapshot_id
    assert sent["summary"]["operation"] == "append"
    assert (sent.get("first-row-id"), sent.get("added-rows")) == ((0, 5) if version == 3 else (None, None))
    assert live_files(server.catalog.load_table("db.t")) == live_files(table) == ["a"]


def test_vectors_go_through(server: Server, rest: RestCatalog) -> None:
    table = opened(server, rest, 3)
    target = data_file(table, "a", 5)
    append(table, target)
    change(table, Operation.DELETE, added_deletes=(deletion_vector(table, "v", target),))
    sent = server.commits[1]["updates"][0]["snapshot"]
    assert (sent["first-row-id"], sent["added-rows"], sent["summary"]["added-dvs"]) == (5, 0, "1")


def test_a_refusal_is_tried_again(server: Server, rest: RestCatalog) -> None:
    table = opened(server, rest, 3)
    other = server.catalog.load_table("db.t")
    append(other, data_file(other, "first", 4))
    append(table, data_file(table, "second", 5))
    assert live_files(table) == ["first", "second"]
    assert [each["updates"][0]["snapshot"]["first-row-id"] for each in server.commits] == [0, 4]
    assert len({each["updates"][0]["snapshot"]["snapshot-id"] for each in server.commits}) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_servers_in_trouble_leave_the_outcome_open(server: Server, rest: RestCatalog, status: int) -> None:
    table = opened(server, rest, 2)
    server.statuses = [status]
    with pytest.raises(CommitStateUnknownError):
        append(table, data_file(table, "a"))
    assert len(metadata_files(table)) == 2


@pytest.mark.parametrize("status", [409, 500, 503])
def test_an_answer_that_got_lost_is_not_asked_for_twice(server: Server, rest: RestCatalog, status: int) -> None:
    table = opened(server, rest, 2)
    server.statuses, server.lands = [status], True
    append(table, data_file(table, "a"))
    assert len(server.commits) == 1
    assert live_files(table) == ["a"]


def test_a_request_that_is_no_good_is_cleaned_up(server: Server, rest: RestCatalog) -> None:
    table = opened(server, rest, 2)
    server.statuses = [400]
    with pytest.raises(Exception, match="trouble"):
        append(table, data_file(table, "a"))
    assert metadata_files(table) == set()
