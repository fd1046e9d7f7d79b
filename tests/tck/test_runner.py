"""Checks are run, judged and explained, and nothing that a plugin does ends the run."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from formatkit.contract import Capability
from formatkit.errors import ConfigurationError
from formatkit.formats.arrow.plugin import ArrowFormat
from formatkit.registry import default_registry
from formatkit.tck import Outcome, Result, Subject, checks, parametrize, run
from formatkit.tck.known import read_known_failures
from formatkit.tck.results import DEFAULT_EXAMPLES
from formatkit.tck.workers import Lost, share
from support.tasks import misbehave
from support.troubled import CrashingFormat, HangingFormat, RaisingFormat

PLAIN = "splits_of_any_size_hold_every_row_once_in_order"
RANDOM = next(name for name in checks() if name.startswith("splits_of_random_files"))
TWIN = "a_split_that_is_not_declared_is_refused"
ARROW: Any = ArrowFormat()


class WithoutSplits(ArrowFormat):
    capabilities = ArrowFormat.capabilities - {Capability.SPLIT}


def one(plugin: Any, name: str = PLAIN, **facts: Any) -> Result:
    (result,) = run(Subject.of(plugin), names=[name], **{"workers": 1, **facts}).results
    return result


def test_a_task_that_ends_its_process_costs_only_its_own_result() -> None:
    tasks = ["one", "crash", "two", "exit", "hang", "three"]
    with closing(share(misbehave, tasks, workers=2, timeout_seconds=5)) as answers:
        found = dict(answers)
    assert {task: answer for task, answer in found.items() if isinstance(answer, str)} == {
        "one": "one done",
        "two": "two done",
        "three": "three done",
    }
    lost = {task: answer.why for task, answer in found.items() if isinstance(answer, Lost)}
    assert "SIGSEGV" in lost["crash"]
    assert lost["exit"] == "exited with code 3"
    assert lost["hang"] == "was not done after 5 s, and was stopped"


INTERRUPTED_WHILE_STARTING = """
import multiprocessing.resource_tracker, multiprocessing.util, os, signal, threading
from formatkit.tck.workers import share
from support.tasks import misbehave

def started_and_interrupted(*arguments):
    process = start(*arguments)
    os.kill(os.getpid(), signal.SIGINT)
    while signal.SIGINT in signal.sigpending():
        pass  # until the other thread takes it, as only that one does not block it
    return process

if __name__ == "__main__":
    multiprocessing.resource_tracker.ensure_running()
    start, multiprocessing.util.spawnv_passfds = multiprocessing.util.spawnv_passfds, started_and_interrupted
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    try:
        list(share(misbehave, ["one"], workers=1, timeout_seconds=60))
    except KeyboardInterrupt:
        print(multiprocessing.active_children())
"""


def test_an_interrupt_that_another_thread_takes_leaves_no_half_started_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED_WHILE_STARTING)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("[]\n", "")


FIRST_PROCESSES = """
from formatkit.tck.workers import share
from support.tasks import hears_interrupts

if __name__ == "__main__":
    print([answer for _, answer in share(hears_interrupts, range(2), workers=2, timeout_seconds=60)])
"""


def test_no_process_hears_interrupts_not_even_the_first(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(FIRST_PROCESSES)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("[False, False]\n", "")


def test_results_have_the_order_of_the_catalogue_whatever_finishes_first() -> None:
    names = [PLAIN, TWIN, "a_split_without_bytes_holds_no_rows"]
    seen: list[Result] = []
    found = run(Subject.of(ARROW), names=reversed(names), workers=2, progress=seen.append)
    chosen = [name for name in checks() if name in names and name != TWIN]
    assert [result.check for result in found.results] == chosen
    assert sorted(result.check for result in seen) == sorted(chosen)
    assert found.failed == []


@pytest.mark.parametrize(
    ("plugin", "patience", "why"),
    [(CrashingFormat(), 120, "SIGSEGV"), (HangingFormat(), 5, "was not done after 5 s")],
    ids=["crashes", "hangs"],
)
def test_a_plugin_that_crashes_or_hangs_fails_the_check(plugin: Any, patience: float, why: str) -> None:
    result = one(plugin, workers=None, timeout_seconds=patience)
    assert (result.check, result.outcome) == (PLAIN, Outcome.FAILED)
    assert result.message.startswith("the check ")
    assert why in result.message


def test_a_failure_shows_the_way_into_the_plugin_and_the_smallest_example() -> None:
    result = one(RaisingFormat(), RANDOM)
    assert result.headline == "ZeroDivisionError: \x1b[31mdivided by zero"
    assert "troubled.py" in result.message
    assert "hypothesis" not in result.message
    assert "Draw 1 (schema)" in result.example
    assert "Explanation" not in result.example


def test_what_does_not_apply_is_refused_and_that_is_proved() -> None:
    # The Arrow reader cuts files whatever its plugin declares, so the twin has something to notice.
    result = one(WithoutSplits())
    assert result.outcome is Outcome.FAILED
    assert "expected UnsupportedError" in result.message


def test_a_known_failure_that_fails_is_known() -> None:
    result = one(RaisingFormat(), known_failures={PLAIN: "a reason"})
    assert (result.outcome, result.reason) == (Outcome.KNOWN, "a reason")
    assert "ZeroDivisionError" in result.message


def test_a_known_failure_that_passes_fails() -> None:
    result = one(ArrowFormat(), known_failures={PLAIN: "a reason"})
    assert result.outcome is Outcome.FAILED
    assert "known failure: a reason" in result.message


def test_a_known_failure_of_a_check_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="no check called no_such_check"):
        run(Subject.of(ARROW), known_failures={"no_such_check": "a reason"})


def test_known_failures_come_from_a_file_by_format_and_batch_type(tmp_path: Path) -> None:
    listed = tmp_path / "known.toml"
    listed.write_text(
        """
        everywhere = "1"
        [arrow]
        in_arrow = "2"
        [arrow."pyarrow.RecordBatch"]
        in_arrow_batches = "3"
        [arrow."polars.DataFrame"]
        in_polars = "4"
        [batches]
        of_batches = "5"
        """
    )
    expected = {"everywhere": "1", "in_arrow": "2", "in_arrow_batches": "3"}
    assert read_known_failures(listed, Subject.of(ARROW)) == expected
    alone = Subject(operations=default_registry().batches(pa.RecordBatch))
    assert read_known_failures(listed, alone) == {"everywhere": "1", "of_batches": "5"}


@pytest.mark.parametrize(("text", "complaint"), [("a = 1", "a reason is a text"), ("a =", "cannot read")])
def test_a_file_of_known_failures_that_says_nothing_is_an_error(tmp_path: Path, text: str, complaint: str) -> None:
    listed = tmp_path / "known.toml"
    listed.write_text(text)
    with pytest.raises(ConfigurationError, match=complaint):
        read_known_failures(listed, Subject.of(ARROW))


def test_a_plugin_that_no_other_process_can_import_is_told_apart() -> None:
    class Local(ArrowFormat):
        pass

    with pytest.raises(ConfigurationError, match="workers=1"):
        one(Local(), workers=2)
    assert one(Local()).outcome is Outcome.PASSED


def test_a_script_that_runs_itself_in_every_process_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from formatkit import tck\n"
        "from formatkit.formats.arrow.plugin import ArrowFormat\n"
        f"tck.run(tck.Subject.of(ArrowFormat()), names=[{PLAIN!r}])\n"
    )
    outcome = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert outcome.returncode == 1
    assert outcome.stderr.splitlines()[-1].startswith("formatkit.errors.ConfigurationError: a process to run checks in")


def test_pytest_gets_one_test_for_each_check(tmp_path: Path) -> None:
    listed = tmp_path / "known.toml"
    listed.write_text(f'[arrow]\n{PLAIN} = "a reason"\n')
    mark = parametrize(ARROW, known_failures=listed, layers=[2]).mark
    parameters = {each.id: each for each in mark.args[1]}
    assert list(parameters) == [name for name, check in checks().items() if check.layer == 2 and name in parameters]
    assert TWIN not in parameters
    (xfail,) = parameters[PLAIN].marks
    assert xfail.kwargs == {"strict": True, "reason": "a reason"}
    parameters[PLAIN].values[0]()


def test_a_run_tells_what_it_was_and_how_to_repeat_it() -> None:
    found = run(Subject.of(ARROW), names=[PLAIN], workers=1)
    assert (found.file_format, found.batch_type, found.examples) == ("arrow", "pyarrow.RecordBatch", DEFAULT_EXAMPLES)
    assert found.plugin.startswith("formatkit 0.")
    assert found.name == "arrow × pyarrow.RecordBatch"
    assert found.counts[Outcome.PASSED] == 1
    assert found.command(PLAIN) == f"formatkit tck arrow --batch pyarrow.RecordBatch --check {PLAIN}"
