"""Answers of an S3 server that Arrow's client takes as they come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from formatkit.errors import StorageError
from formatkit.io import IoRuntime, open_source
from formatkit.io.retry import RetryPolicy

CONTENT = bytes(range(256)) * 40
LOCATION = "s3://bucket/data.parquet"


class _Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    missing: ClassVar[int] = 0

    def do_HEAD(self) -> None:
        self._begin(200, len(CONTENT))

    def do_GET(self) -> None:
        first, last = (int(each) for each in self.headers["Range"].removeprefix("bytes=").split("-"))
        found = CONTENT[first : last + 1]
        found = found[: len(found) - self.missing]
        self._begin(206, len(found))
        self.wfile.write(found)

    def _begin(self, status: int, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def properties() -> Iterator[dict[str, str]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {
            "s3.endpoint": f"http://127.0.0.1:{server.server_port}",
            "s3.access-key-id": "any",
            "s3.secret-access-key": "any",
            "s3.region": "us-east-1",
            "s3.force-virtual-addressing": "false",
        }
        server.shutdown()


@pytest.mark.parametrize("missing", [0, 1, 3, 500])
def test_an_answer_that_is_too_short_is_an_error_of_the_storage(
    properties: dict[str, str], missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Server, "missing", missing)
    with IoRuntime(threads=2, retry=RetryPolicy(attempts=1)) as runtime:
        storage = PyArrowFileIO(properties)
        # The last byte is also one of those that are put there to be overwritten.
        for end in (8_961, 8_960 + 0x5B, 8_960 + 0xA6):
            source = open_source(LOCATION, storage, runtime=runtime)
            if not missing:
                assert source.read(8_000, end - 8_000) == CONTENT[8_000:end]
                continue
            with pytest.raises(StorageError, match="shorter than what was asked for") as caught:
                source.read(8_000, end - 8_000)
            assert caught.value.retryable
