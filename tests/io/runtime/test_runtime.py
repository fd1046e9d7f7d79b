"""The runtime: who runs what, in which order, and how it ends."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial

import pytest

import formatkit
from formatkit.errors import ConfigurationError, StorageError
from formatkit.io import IoRuntime, RetryPolicy, current_runtime, default_runtime, with_runtime
from formatkit.io import runtime as runtime_module
from formatkit.io.workers import Call, on_worker_thread

QUICK = RetryPolicy(first_delay=0.0)


@pytest.fixture
def runtime() -> Iterator[IoRuntime]:
    with IoRuntime(threads=1, retry=QUICK) as made:
        yield made


def test_calls_run_on_threads_of_the_runtime(runtime: IoRuntime) -> None:
    assert runtime.run(on_worker_thread)
    assert not on_worker_thread()
    assert runtime.submit(threading.current_thread).result().name.startswith("formatkit-io")


def test_one_thread_does_not_wait_for_itself(runtime: IoRuntime) -> None:
    other = IoRuntime(threads=1)
    assert runtime.run(lambda: other.run(lambda: runtime.run(lambda: runtime.submit(lambda: 5).result()))) == 5
    other.close()


def test_errors_reach_the_caller_with_their_traceback(runtime: IoRuntime) -> None:
    def failing() -> None:
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing") as caught:
        runtime.run(failing)
    assert caught.traceback[-1].name == "failing"


def test_the_wait_is_counted(runtime: IoRuntime) -> None:
    runtime.run(lambda: time.sleep(0.02))
    # Clocks differ a little.
    assert runtime.usage.waited_seconds > 0.01


def test_what_somebody_waits_for_overtakes_what_is_read_ahead(runtime: IoRuntime) -> None:
    order: list[str] = []
    gate = threading.Event()
    runtime.submit(gate.wait)
    ahead = [Call(partial(order.append, name)) for name in ("first", "second", "third")]
    for call in ahead:
        runtime.workers.put(call, urgent=False)
    waited_for = runtime.submit(lambda: order.append("urgent"))
    runtime.workers.hurry(ahead[2:])
    gate.set()
    waited_for.result()
    for call in ahead:
        call.result()
    assert order == ["urgent", "third", "first", "second"]


def test_no_more_calls_than_threads_run_at_once() -> None:
    running: list[int] = []
    most = 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal most
        with lock:
            running.append(1)
            most = max(most, len(running))
        time.sleep(0.002)
        with lock:
            running.pop()

    with IoRuntime(threads=3) as runtime:
        for future in [runtime.submit(work) for _ in range(50)]:
            future.result()
    assert most == 3


def test_closing_waits_for_what_is_under_way_and_cancels_the_rest(runtime: IoRuntime) -> None:
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait()
        ended.set()

    runtime.submit(work)
    waiting = runtime.submit(lambda: None)
    begun.wait()
    threading.Timer(0.05, gate.set).start()
    runtime.close()
    runtime.close()
    assert ended.is_set()
    with pytest.raises(CancelledError):
        waiting.result()
    with pytest.raises(StorageError, match="the IO runtime was closed"):
        runtime.run(lambda: None)


def test_whoever_waits_is_told_that_the_runtime_was_closed(runtime: IoRuntime) -> None:
    gate = threading.Event()
    blocked = runtime.submit(gate.wait)
    while not blocked.running():
        time.sleep(0.001)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(runtime.run, lambda: None)
        while not runtime.workers._urgent:
            time.sleep(0.001)
        runtime.close(patience=0)
        with pytest.raises(StorageError, match="the IO runtime was closed"):
            waiting.result()
    gate.set()


def test_no_thread_is_left_after_closing() -> None:
    before = threading.active_count()
    with IoRuntime(threads=4) as runtime:
        for future in [runtime.submit(lambda: time.sleep(0.001)) for _ in range(20)]:
            future.result()
    assert threading.active_count() == before


def test_a_runtime_that_nobody_knows_ends_its_threads() -> None:
    before = threading.active_count()
    runtime = IoRuntime(threads=2)
    runtime.run(lambda: None)
    del runtime
    gc.collect()
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.005)
    assert threading.active_count() == before


def test_a_callers_threads_are_used_and_left_alone() -> None:
    with ThreadPoolExecutor(2, thread_name_prefix="mine") as pool:
        with IoRuntime(threads=2, executor=pool) as runtime:
            names = {future.result() for future in [runtime.submit(_thread_name) for _ in range(20)]}
            assert runtime.run(lambda: runtime.run(on_worker_thread))
        assert {name.split("_")[0] for name in names} == {"mine"}
        assert pool.submit(on_worker_thread).result() is False
        with pytest.raises(StorageError, match="the IO runtime was closed"):
            runtime.run(_thread_name)


def _thread_name() -> str:
    return threading.current_thread().name


def test_an_executor_that_was_shut_down_is_a_storage_error() -> None:
    pool = ThreadPoolExecutor(1)
    runtime = IoRuntime(executor=pool)
    pool.shutdown()
    with pytest.raises(StorageError, match="there is no thread"):
        runtime.run(lambda: None)


class Flaky:
    def __init__(self, failures: int, *, retryable: bool = True) -> None:
        self.failures = failures
        self.retryable = retryable
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise StorageError("later perhaps", retryable=self.retryable)
        return self.calls


def test_failures_that_pass_are_tried_again(runtime: IoRuntime) -> None:
    assert runtime.run(runtime.retried(Flaky(3))) == 4
    assert runtime.usage.retries == 3


@pytest.mark.parametrize(("call", "calls"), [(Flaky(9), 4), (Flaky(1, retryable=False), 1)])
def test_other_failures_and_the_last_one_are_raised(runtime: IoRuntime, call: Flaky, calls: int) -> None:
    with pytest.raises(StorageError, match="later perhaps"):
        runtime.run(runtime.retried(call))
    assert call.calls == calls


def test_each_wait_is_longer_than_the_one_before_up_to_a_limit() -> None:
    policy = RetryPolicy(attempts=6, first_delay=1.0, longest_delay=4.0)
    for _ in range(20):
        delays = list(policy.delays())
        assert all(limit / 2 <= delay <= limit for delay, limit in zip(delays, (1, 2, 4, 4, 4), strict=True))


def test_closing_interrupts_the_wait_for_the_next_attempt() -> None:
    patient = IoRuntime(threads=1, retry=RetryPolicy(first_delay=300, longest_delay=300))
    call = Flaky(9)
    attempt = patient.submit(patient.retried(call))
    while not call.calls:
        time.sleep(0.001)
    patient.close()
    with pytest.raises(StorageError, match="the IO runtime was closed"):
        attempt.result()


def test_the_innermost_runtime_is_the_current_one(runtime: IoRuntime) -> None:
    with IoRuntime() as other, formatkit.with_runtime(runtime):
        with with_runtime(other) as inner:
            assert current_runtime() is inner is other
        assert current_runtime() is runtime
    assert current_runtime() is default_runtime()


@pytest.fixture
def no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_module, "_default", None)


@pytest.mark.usefixtures("no_default")
def test_the_environment_sets_the_default_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORMATKIT_IO_THREADS", "3")
    monkeypatch.setenv("FORMATKIT_IO_BYTES", str(2 << 20))
    monkeypatch.setenv("FORMATKIT_IO_URING", "off")
    made = default_runtime()
    assert (made._threads, made.budget.most_bytes, made.io_uring) == (3, 2 << 20, "off: threads read local files")
    assert default_runtime() is made
    made.close()
    assert default_runtime() is not made


@pytest.mark.usefixtures("no_default")
@pytest.mark.parametrize(
    ("variable", "value"), [("THREADS", "many"), ("THREADS", "0"), ("BYTES", "12"), ("URING", "perhaps")]
)
def test_settings_that_mean_nothing_are_refused(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(f"FORMATKIT_IO_{variable}", value)
    with pytest.raises(ConfigurationError, match=value):
        default_runtime()


HANGING = """
import time
from formatkit.io import IoRuntime
runtime = IoRuntime(threads=2)
for _ in range(50):
    runtime.submit(lambda: time.sleep(600))
print("end")
"""


def test_a_process_ends_though_the_storage_hangs() -> None:
    command = [sys.executable, "-X", "dev", "-c", HANGING]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")
