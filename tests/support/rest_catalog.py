"""A server of Iceberg's REST protocol in front of a SQL catalog. It may lose answers, and carry out commits late."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from pydantic import TypeAdapter
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableRequest
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

__all__ = ["Fate", "ImpatientAdapter", "RestServer", "Trouble", "serving"]

Fate = Literal["answer", "cut", "502", "garbage", "late", "late and locked", "garbage first"]
"""What becomes of a request. "cut", "502" and "garbage" carry it out and lose the answer. The others carry it out after
the client has given up and looked at the table: "late and locked" lets all other commits wait meanwhile, and so does
"garbage first", which is a proxy that answers for a server it has lost patience with."""

_GARBAGE = b"<html>502 Bad Gateway</html>"


@dataclass
class Trouble:
    """Chooses the fate of each request by chance.

    Attributes:
        lost: The share of answers that are lost.
        late: The share of commits that are carried out after the client's time-out.
    """

    seed: int
    lost: float = 0.15
    late: float = 0.1
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def of_commit(self) -> Fate:
        with self.lock:
            number = self._chance.random()
            if number < self.late:
                return self._chance.choice(["late", "late and locked", "garbage first"])
            if number < self.late + self.lost:
                return self._chance.choice(["cut", "502", "garbage"])
            return "answer"

    def of_load(self) -> Fate:
        with self.lock:
            return "cut" if self._chance.random() < self.lost else "answer"


class RestServer:
    """What the server was asked for, and what it is told to do with it.

    Attributes:
        commits: The requests.
        statuses: What the next commits are answered with instead of 200, carried out only if `lands` is set.
        trouble: Chooses which answers are lost.
        patience: The seconds after which a client has certainly given up and looked at the table.
        counts: How many commits met which fate, and what became of the late ones.
    """

    def __init__(self, catalog: SqlCatalog, *, trouble: Trouble | None = None, patience: float = 0) -> None:
        self.catalog = catalog
        self.trouble = trouble
        self.patience = patience
        self.commits: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.lands = False
        self.counts: Counter[str] = Counter()
        self.under_way = 0
        self.port = 0
        self._commit_lock = threading.Lock()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def table(self, name: str) -> dict[str, Any]:
        table = self.catalog.load_table(name)
        return {
            "metadata-location": table.metadata_location,
            "metadata": json.loads(table.metadata.model_dump_json()),
            "config": {},
        }

    def commit(self, name: str, request: dict[str, Any], fate: Fate) -> tuple[int, dict[str, Any]]:
        """Carry a request out; returns the status and the body of the answer."""
        if fate == "late":
            time.sleep(self.patience)
        with self._commit_lock:
            if fate in ("late and locked", "garbage first"):
                time.sleep(self.patience)
            parsed = TypeAdapter(CommitTableRequest).validate_python(request)
            try:
                self.catalog.commit_table(self.catalog.load_table(name), parsed.requirements, parsed.updates)
            except (CommitFailedException, ValueError) as error:
                status = 409 if isinstance(error, CommitFailedException) else 400
                self.counts[f"{fate}: {status}"] += 1
                return status, _error(status, str(error))
            self.counts[f"{fate}: committed"] += 1
            return 200, self.table(name)


@contextmanager
def serving(server: RestServer) -> Iterator[RestCatalog]:
    """Run a server; gives a catalog of its tables."""
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"rest": server})) as http:
        server.port = http.server_port
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            with closing(RestCatalog("rest", uri=server.uri)) as catalog:
                yield catalog
        finally:
            http.shutdown()
            thread.join()


class ImpatientAdapter(HTTPAdapter):
    """Sets a time-out: pyiceberg's REST catalog waits for an answer for ever."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        super().__init__()

    def send(self, request: PreparedRequest, *arguments: Any, **options: Any) -> Response:
        return super().send(request, *arguments, **{**options, "timeout": self._seconds})


def _error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "Trouble", "code": status}}


class _Handler(BaseHTTPRequestHandler):
    rest: RestServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.endswith("/v1/config"):
            self._answer(200, {"defaults": {}, "overrides": {}})
        else:
            fate = self.rest.trouble.of_load() if self.rest.trouble else "answer"
            self._lose_or_answer(fate, lambda: (200, self.rest.table(self._name())))

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.rest.commits.append(request)
        status = self.rest.statuses.pop(0) if self.rest.statuses else 200
        if status != 200:
            if self.rest.lands:
                self.rest.commit(self._name(), request, "answer")
            self._answer(status, _error(status, "trouble"))
            return
        fate = self.rest.trouble.of_commit() if self.rest.trouble else "answer"
        self.rest.under_way += 1
        try:
            self._lose_or_answer(fate, lambda: self.rest.commit(self._name(), request, fate))
        finally:
            self.rest.under_way -= 1

    def _name(self) -> str:
        parts = self.path.split("?")[0].split("/")
        return f"{parts[-3]}.{parts[-1]}"

    def _lose_or_answer(self, fate: Fate, work: Callable[[], tuple[int, dict[str, Any]]]) -> None:
        if fate == "garbage first":
            self.close_connection = True
            self._send(200, _GARBAGE)
            self.connection.shutdown(socket.SHUT_RDWR)
            work()
            return
        status, body = work()
        if fate == "answer" or fate.startswith("late"):
            self._answer(status, body)
        elif fate == "cut":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif fate == "502":
            self._answer(502, _error(502, "bad gateway"))
        else:
            self._send(200, _GARBAGE)

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, json.dumps(document).encode())

    def _send(self, status: int, body: bytes) -> None:
        with suppress(ConnectionError):  # the client may have given up
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
