"""Commits through a REST catalog: pyiceberg's client, and a small server of the real protocol."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from formatkit.errors import CatalogError, CommitStateUnknownError
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
from support.rest_catalog import ImpatientAdapter, RestServer, Trouble, serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with closing(new_sql_catalog(tmp_path)) as catalog:
        yield RestServer(catalog)


@pytest.fixture
def rest(server: RestServer) -> Iterator[RestCatalog]:
    with serving(server) as catalog:
        yield catalog


def opened(server: RestServer, rest: RestCatalog, version: int) -> Table:
    new_table(server.catalog, version)
    table: Table = rest.load_table("db.t")
    return table


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_commit_is_one_request_of_two_updates(server: RestServer, rest: RestCatalog, version: int) -> None:
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


def test_vectors_go_through(server: RestServer, rest: RestCatalog) -> None:
    table = opened(server, rest, 3)
    target = data_file(table, "a", 5)
    append(table, target)
    change(table, Operation.DELETE, added_deletes=(deletion_vector(table, "v", target),))
    sent = server.commits[1]["updates"][0]["snapshot"]
    assert (sent["first-row-id"], sent["added-rows"], sent["summary"]["added-dvs"]) == (5, 0, "1")


def test_a_refusal_is_tried_again(server: RestServer, rest: RestCatalog) -> None:
    table = opened(server, rest, 3)
    other = server.catalog.load_table("db.t")
    append(other, data_file(other, "first", 4))
    append(table, data_file(table, "second", 5))
    assert live_files(table) == ["first", "second"]
    assert [each["updates"][0]["snapshot"]["first-row-id"] for each in server.commits] == [0, 4]
    assert len({each["updates"][0]["snapshot"]["snapshot-id"] for each in server.commits}) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 499, 500, 501, 502, 503, 504, 520])
def test_servers_in_trouble_leave_the_outcome_open(server: RestServer, rest: RestCatalog, status: int) -> None:
    table = opened(server, rest, 2)
    server.statuses = [status]
    with pytest.raises(CommitStateUnknownError):
        append(table, data_file(table, "a"))
    assert len(metadata_files(table)) == 2


@pytest.mark.parametrize("status", [409, 500, 503])
def test_an_answer_that_got_lost_is_not_asked_for_twice(server: RestServer, rest: RestCatalog, status: int) -> None:
    table = opened(server, rest, 2)
    server.statuses, server.lands = [status], True
    append(table, data_file(table, "a"))
    assert len(server.commits) == 1
    assert live_files(table) == ["a"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 419, 422])
def test_a_request_that_is_no_good_is_cleaned_up(server: RestServer, rest: RestCatalog, status: int) -> None:
    table = opened(server, rest, 2)
    server.statuses = [status, status]
    with pytest.raises(Exception, match="trouble"):
        append(table, data_file(table, "a"))
    assert metadata_files(table) == set()


def test_a_request_that_was_never_sent_is_cleaned_up(server: RestServer, tmp_path: Path) -> None:
    new_table(server.catalog)
    with serving(server) as rest:
        table = rest.load_table("db.t")
    with pytest.raises(CatalogError, match="Connection refused"):
        append(table, data_file(table, "a"))
    assert metadata_files(table) == set()


class CutAndGone(BaseHTTPRequestHandler):
    """Takes one request, cuts the connection, and is gone."""

    def do_POST(self) -> None:
        self.server.server_close()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: Any) -> None:
        pass


def test_a_request_that_was_sent_before_the_server_was_gone_is_in_doubt(server: RestServer) -> None:
    new_table(server.catalog)
    with serving(server) as rest:
        table = rest.load_table("db.t")
    with HTTPServer(("127.0.0.1", server.port), CutAndGone) as http:
        again = Retry(total=1, allowed_methods=None)
        rest._session.mount("http://", HTTPAdapter(max_retries=again))
        thread = Thread(target=http.handle_request, daemon=True)
        thread.start()
        with pytest.raises(CommitStateUnknownError, match="refused"):
            append(table, data_file(table, "a"))
        thread.join()
    assert len(metadata_files(table)) == 2


class Elsewhere(BaseHTTPRequestHandler):
    """Takes a commit, which it carries out later, and says where to look for the outcome; there is nothing yet."""

    server: ThreadingHTTPServer
    port = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(303)

    def do_GET(self) -> None:
        self._answer(404)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Location", f"http://127.0.0.1:{self.port or self.server.server_port}/outcome")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize("gone", [False, True], ids=["the other place has nothing", "there is no other place"])
def test_a_request_that_is_answered_by_a_redirect_is_in_doubt(server: RestServer, gone: bool) -> None:
    new_table(server.catalog)
    with serving(server) as rest:
        table = rest.load_table("db.t")
    with closing(socket.create_server(("127.0.0.1", 0))) as unused:
        other = unused.getsockname()[1] if gone else 0
    with ThreadingHTTPServer(("127.0.0.1", server.port), type("Handler", (Elsewhere,), {"port": other})) as http:
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            with pytest.raises(CommitStateUnknownError):
                append(table, data_file(table, "a"))
        finally:
            http.shutdown()
            thread.join()
    assert len(metadata_files(table)) == 2


def test_a_client_that_gives_up_does_not_delete_what_is_committed_later(server: RestServer) -> None:
    new_table(server.catalog)
    server.trouble, server.patience = Trouble(seed=1, lost=0, late=1), 0.6
    with serving(server) as rest:
        rest._session.mount("http://", ImpatientAdapter(0.2))
        table = rest.load_table("db.t")
        with pytest.raises(CommitStateUnknownError, match="ReadTimeout"):
            append(table, data_file(table, "a"))
        assert live_files(table.refresh()) == []
        while server.under_way:
            time.sleep(0.02)
        assert live_files(table.refresh()) == ["a"]
