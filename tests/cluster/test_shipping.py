"""formatkit and a plugin come to executors with the job, as docs/spark-shipping.md says; nothing is installed there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest

from support.environments import environment_without_formatkit
from support.repository import ROOT

SUM = 999 * 1000 // 2
PLUGIN = ROOT / "examples" / "formatkit-jsonl"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """formatkit, and a plugin of somebody else."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in (ROOT, PLUGIN):
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(project)]
        subprocess.run(command, check=True, capture_output=True)
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare") / "environment"
    environment_without_formatkit(folder)
    return folder


def submit(master: str, folder: Path, options: list[str], *, driver: Path, executor: str) -> dict[str, Any]:
    """What the job found."""
    command = [
        f"{pyspark.__path__[0]}/bin/spark-submit", "--master", master, "--executor-memory", "512m",
        "--conf", "spark.cores.max=2", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1",
        "--conf", "spark.python.unix.domain.socket.enabled=true",
        *options, str(ROOT / "tests" / "support" / "shipped_job.py"), str(folder), "parquet", "jsonl",
    ]  # fmt: skip
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    interpreters = {"PYSPARK_DRIVER_PYTHON": str(driver), "PYSPARK_PYTHON": executor, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command, env={**environment, **interpreters}, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


def test_wheels_work_as_py_files(master: str, wheels: list[Path], bare: Path, tmp_path: Path) -> None:
    archives = [tmp_path / f"{wheel.name.partition('-')[0]}.zip" for wheel in wheels]
    for wheel, archive in zip(wheels, archives, strict=True):
        archive.write_bytes(wheel.read_bytes())
    options = ["--py-files", ",".join(map(str, archives))]
    python = bare / "bin" / "python"
    found = submit(master, tmp_path, options, driver=python, executor=str(python))
    assert found["parquet"] == found["jsonl"] == SUM
    assert "formatkit.zip" in found["module"]
    assert found["compiled"]


def test_an_archive_of_an_environment_works_within_the_least_memory(
    master: str, wheels: list[Path], bare: Path, tmp_path: Path
) -> None:
    packages = next(bare.glob("lib/python*/site-packages"))
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(packages)
    with tarfile.open(tmp_path / "environment.tar.gz", "w:gz") as archive:
        # Its packages are links, which lead to the same files on the executors of this machine.
        archive.add(bare, arcname=".")
    options = ["--archives", f"{tmp_path}/environment.tar.gz#environment"]
    options += ["--conf", "spark.executor.pyspark.memory=768m"]
    found = submit(master, tmp_path, options, driver=bare / "bin" / "python", executor="./environment/bin/python")
    assert found["parquet"] == found["jsonl"] == SUM
    assert "/environment/" in found["interpreter"]
