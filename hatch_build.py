"""Compiles the kernels when formatkit is built or installed, so that no process of its users has to."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path(__file__).parent / "src"
PROCESSOR = "x86-64-v3"


class ImageHook(BuildHookInterface):
    """Builds the images of compiled code. They lie beside their sources, and wheels take them from there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or sys.platform != "linux" or platform.machine() != "x86_64":
            return
        command = [sys.executable, "-m", "formatkit.batches.compiled"]
        environment = os.environ | {"PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "1"}
        builds = [subprocess.Popen([*command, package], env=environment) for package in self._packages()]  # noqa: S603
        failed = [build.wait() for build in builds]
        if any(failed):
            raise RuntimeError("compiling the kernels failed")
        if version != "editable":
            build_data["tag"] = "py3-none-manylinux_2_17_x86_64"

    def _packages(self) -> list[str]:
        folders = (path.parent for path in SOURCES.glob("formatkit/formats/*/kernels/__init__.py"))
        return [".".join(folder.relative_to(SOURCES).parts) for folder in folders]
