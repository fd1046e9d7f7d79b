"""What the machine offers, and that only what is broken is a fault."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

from formatkit.cli.doctor_findings import Finding
from formatkit.cli.doctor_machine import machine_findings
from formatkit.cli.doctor_packages import _failed_format, _package, _Requirement, package_findings
from formatkit.errors import PluginLoadError
from support.shop import Command

STATES = {"ok", "missing", "unsuitable", "broken"}


@pytest.fixture(scope="module")
def document() -> dict[tuple[str, str], Finding]:
    """The report about this machine, made once, because it imports everything."""
    findings = [*package_findings(), *machine_findings()]
    return {(each.area, each.name): each for each in findings}


def test_everything_that_is_required_is_reported_with_its_version(document: dict[tuple[str, str], Finding]) -> None:
    required = {text.partition(";")[0] for text in requires("formatkit") or () if "extra" not in text}
    names = {name for area, name in document if area == "packages"}
    assert len(names) == len(required)
    assert "pyiceberg" in names
    assert all(document["packages", name].state == "ok" and document["packages", name].found for name in names)


def test_extras_formats_storage_and_limits_are_reported(document: dict[tuple[str, str], Finding]) -> None:
    areas = {"python", "packages", "extras", "formats", "compiled code", "java", "storage", "limits"}
    assert {area for area, _ in document} == areas
    extras = {name.partition(" ")[0] for area, name in document if area == "extras"}
    assert extras == {"encryption", "lance", "polars", "spark", "tck", "vortex"}
    assert {"parquet", "avro", "orc"} <= {name for area, name in document if area == "formats"}
    assert {name for area, name in document if area == "storage"} == {"IO runtime", "io_uring", "page-cache probes"}
    assert "threads" in document["storage", "IO runtime"].found
    assert {finding.state for finding in document.values()} <= STATES
    assert all(finding.found for finding in document.values())


def test_the_command_prints_the_same_for_people_and_for_programs(command: Command) -> None:
    outcome = command("doctor", "--json")
    assert outcome.code == 0, outcome.out
    report = outcome.document
    assert report["healthy"] is True
    text = command("doctor").out
    for finding in report["findings"]:
        assert finding["name"] in text
        assert set(finding) == {"area", "name", "state", "found", "advice"}
    assert "Nothing that is installed is broken" in text


def test_code_without_an_image_is_reported_with_what_builds_one(tmp_path: Path) -> None:
    program = "from formatkit.cli.doctor_packages import _compiled; print(_compiled('formatkit.formats.avro.kernels'))"
    for images, state in ((str(tmp_path), "missing"), ("off", "ok")):
        answer = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"FORMATKIT_IMAGES": images},
        )
        assert f"state='{state}'" in answer.stdout
        assert ("python -m formatkit.batches.compiled" in answer.stdout) == (state == "missing")


def test_an_extra_that_is_not_installed_is_no_fault() -> None:
    finding = _package(_Requirement("no-such-package", "spark"))
    assert (finding.state, finding.advice) == ("missing", 'pip install "formatkit[spark]"')


def test_a_requirement_that_is_not_installed_is_a_fault() -> None:
    finding = _package(_Requirement("no-such-package", None))
    assert (finding.state, finding.advice) == ("broken", "pip install no-such-package")


def test_a_package_that_cannot_be_imported_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, record = tmp_path / "broken_on_import", tmp_path / "broken_on_import-1.0.dist-info"
    for folder in (package, record):
        folder.mkdir()
    (package / "__init__.py").write_text("raise OSError('libwrong.so is not there')")
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-on-import\nVersion: 1.0\n")
    (record / "RECORD").write_text("broken_on_import/__init__.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    finding = _package(_Requirement("broken-on-import", None))
    assert finding.state == "broken"
    assert "OSError: libwrong.so is not there" in finding.found


@pytest.mark.parametrize(
    ("message", "state", "advice"),
    [
        (
            """'lance' cannot be loaded: No module named 'lance'. Run: pip install "formatkit[lance]\"""",
            "missing",
            'pip install "formatkit[lance]"',
        ),
        ("'own' is installed by own-format but cannot be loaded: ZeroDivisionError", "broken", ""),
    ],
)
def test_a_plugin_that_lacks_its_extra_is_told_from_one_that_fails(message: str, state: str, advice: str) -> None:
    finding = _failed_format("name", PluginLoadError(message))
    assert (finding.state, finding.advice) == (state, advice)


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("echo 'openjdk version \"17.0.1\" 2021-10-19' >&2", "ok"),
        ("echo 'openjdk version \"21\" 2023-09-19' >&2", "ok"),
        ("echo 'java version \"1.8.0_392\"' >&2", "unsuitable"),
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "unsuitable"),
        ("exit 3", "broken"),
        (None, "broken"),
    ],
)
def test_the_java_that_spark_would_start_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str | None, state: str
) -> None:
    if answer is not None:
        program = tmp_path / "bin" / "java"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{answer}\n")
        program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java = next(finding for finding in machine_findings() if finding.area == "java")
    assert java.state == state
    assert str(tmp_path) in java.found
    assert ("JDK 17 or 21" in java.advice) == (state != "ok")


def test_no_java_is_no_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    java = next(finding for finding in machine_findings() if finding.area == "java")
    assert java.state == "missing"


def test_a_broken_setting_is_a_fault() -> None:
    program = "from formatkit.cli.doctor_machine import _runtime; print(_runtime())"
    environment = {"FORMATKIT_IO_THREADS": "many"}
    outcome = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert "state='broken'" in outcome.stdout
    assert "FORMATKIT_IO_THREADS is 'many'" in outcome.stdout


def test_what_is_broken_makes_the_command_fail(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    outcome = command("doctor", "--json")
    assert outcome.code == 1
    assert outcome.document["healthy"] is False
