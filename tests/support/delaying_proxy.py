"""A process between clients and an HTTP server that is as slow, and as unreliable, as it is told to be.

Run as ``python -m support.delaying_proxy HOST:PORT``. It listens on a free port of the loopback, says which in its
first line of output, and then answers each line of input, a JSON object of changed settings, with a line of what was
seen so far. It ends with its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from typing import Any

_CHUNK = 128 << 10
_HEAD_END = b"\r\n\r\n"
_OVERLOADED = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_CONTINUE = 100
_LASTING = {200, 206}
_WITHOUT_BODY = {204, 304}
# Seconds that a pace may catch up, so that waking up late costs no bandwidth.
_CATCH_UP = 0.02


@dataclass
class Settings:
    """What the proxy does.

    Attributes:
        latency: Seconds before a request is passed on.
        connection_rate: Bytes a second of each connection.
        total_rate: Bytes a second of all connections together.
        faults: What is done to the next requests that match: `{"kind": "503" | "reset" | "truncate", "times": 3,
            "method": "GET", "path": ".parquet"}`.
        remember: Whether what was once fetched is not asked of the server again, whose work a remote store would do
            elsewhere.
    """

    latency: float = 0.0
    connection_rate: float | None = None
    total_rate: float | None = None
    faults: list[dict[str, Any]] = field(default_factory=list)
    remember: bool = False


@dataclass
class Request:
    """One request that was seen; times are those of `time.monotonic`."""

    method: str
    path: str
    range: str | None
    fault: str | None = None
    status: int = 0
    sent: int = 0
    received: int = 0
    began: float = 0.0
    ended: float = 0.0

    @property
    def key(self) -> tuple[str, str, str | None]:
        return self.method, self.path, self.range


class Pace:
    """Lets bytes through at a rate, by telling from when on each may go."""

    def __init__(self) -> None:
        self._free_at = 0.0

    async def take(self, size: int, rate: float | None) -> None:
        if rate is None:
            return
        now = asyncio.get_running_loop().time()
        self._free_at = max(now - _CATCH_UP, self._free_at) + size / rate
        await asyncio.sleep(self._free_at - now)


class Head:
    """The first line and the headers of a message, kept as they came because clients sign them."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        first, *lines = raw.decode("latin-1").split("\r\n")
        self.first = first.split(" ", 2)
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def status(self) -> int:
        return int(self.first[1])

    @property
    def waits_to_continue(self) -> bool:
        return self.headers.get("expect", "").lower() == "100-continue"

    @property
    def keeps_alive(self) -> bool:
        return self.headers.get("connection", "").lower() != "close"


class Proxy:
    """Relays requests, one at a time on each connection."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._total = Pace()
        self.settings = Settings()
        self.requests: list[Request] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._remembered: dict[tuple[str, str, str | None], tuple[bytes, bytes]] = {}

    def observed(self) -> dict[str, Any]:
        """What was seen since this was last asked for."""
        seen, self.requests = self.requests, []
        most, self.most_in_flight = self.most_in_flight, self.in_flight
        return {"requests": [asdict(request) for request in seen], "most_in_flight": most, "in_flight": self.in_flight}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay everything that comes over one connection."""
        pace = Pace()
        try:
            server_reader, server_writer = await asyncio.open_connection(self._host, self._port, limit=4 * _CHUNK)
        except OSError:
            writer.transport.abort()
            return
        try:
            while await self._relay_one(reader, writer, server_reader, server_writer, pace):
                pass
        except (OSError, EOFError, asyncio.IncompleteReadError):
            pass
        finally:
            server_writer.transport.abort()
            with contextlib.suppress(OSError):
                writer.close()

    async def _relay_one(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
        pace: Pace,
    ) -> bool:
        head = Head(await reader.readuntil(_HEAD_END))
        request = Request(head.first[0], head.first[1], head.headers.get("range"))
        request.fault = self._next_fault(request)
        request.began = time.monotonic()
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.settings.latency)
            if request.fault == "reset":
                writer.transport.abort()
                return False
            if request.fault == "503":
                request.status = 503
                writer.write(_OVERLOADED)
                await writer.drain()
                return False
            if self.settings.remember and request.key in self._remembered:
                return await self._repeat(request, writer, pace) and head.keeps_alive
            server_writer.write(head.raw)
            answer = Head(await server_reader.readuntil(_HEAD_END)) if head.waits_to_continue else None
            if answer is None or answer.status == _CONTINUE:
                writer.write(answer.raw if answer else b"")
                async for data in _body(reader, head):
                    request.received += len(data)
                    await self._pass_on(data, server_writer, pace)
                answer = Head(await server_reader.readuntil(_HEAD_END))
            return await self._answer(request, answer, server_reader, writer, pace) and head.keeps_alive
        finally:
            request.ended = time.monotonic()
            self.in_flight -= 1

    async def _answer(
        self,
        request: Request,
        head: Head,
        server_reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pace: Pace,
    ) -> bool:
        request.status = head.status
        writer.write(head.raw)
        if request.method == "HEAD" or request.status in _WITHOUT_BODY:
            if self.settings.remember and request.method == "HEAD" and request.status in _LASTING:
                self._remembered[request.key] = head.raw, b""
            await writer.drain()
            return head.keeps_alive
        half = int(head.headers.get("content-length", 0)) // 2
        whole = bytearray()
        async for data in _body(server_reader, head):
            if request.fault == "truncate" and request.sent + len(data) > half:
                writer.write(data[: half - request.sent])
                await writer.drain()
                return False
            request.sent += len(data)
            if self.settings.remember:
                whole += data
            await self._pass_on(data, writer, pace)
        if self.settings.remember and request.method == "GET" and request.status in _LASTING:
            self._remembered[request.key] = head.raw, bytes(whole)
        return head.keeps_alive

    async def _repeat(self, request: Request, writer: asyncio.StreamWriter, pace: Pace) -> bool:
        head, body = self._remembered[request.key]
        request.status = Head(head).status
        writer.write(head)
        for start in range(0, len(body), _CHUNK):
            await self._pass_on(memoryview(body)[start : start + _CHUNK], writer, pace)
        await writer.drain()
        request.sent = len(body)
        return Head(head).keeps_alive

    async def _pass_on(self, data: bytes | memoryview, writer: asyncio.StreamWriter, pace: Pace) -> None:
        await self._total.take(len(data), self.settings.total_rate)
        await pace.take(len(data), self.settings.connection_rate)
        writer.write(data)
        await writer.drain()

    def _next_fault(self, request: Request) -> str | None:
        for fault in self.settings.faults:
            if (
                fault["times"] > 0
                and request.method == fault.get("method", "GET")
                and fault.get("path", "") in request.path
            ):
                fault["times"] -= 1
                return str(fault["kind"])
        return None


async def _body(reader: asyncio.StreamReader, head: Head) -> AsyncIterator[bytes]:
    """The bytes of a body as they come, with the marks of chunked ones."""
    if head.headers.get("transfer-encoding", "").lower() == "chunked":
        while True:
            size_line = await reader.readline()
            size = int(size_line.partition(b";")[0], 16)
            yield size_line + await reader.readexactly(size + 2)
            if size == 0:
                return
    left = int(head.headers.get("content-length", 0))
    while left:
        data = await reader.read(min(left, _CHUNK))
        if not data:
            raise EOFError
        left -= len(data)
        yield data


async def _run(host: str, port: int) -> None:
    proxy = Proxy(host, port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=4 * _CHUNK)
    print(server.sockets[0].getsockname()[1], flush=True)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async with server:
        while line := await commands.readline():
            for name, value in json.loads(line).items():
                setattr(proxy.settings, name, value)
            print(json.dumps(proxy.observed()), flush=True)


if __name__ == "__main__":
    target, _, target_port = sys.argv[1].partition(":")
    asyncio.run(_run(target, int(target_port)))
