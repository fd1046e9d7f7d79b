"""Compiles the kernels when formatkit is built or installed, so that no process of its users has to."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_TAG = "py3-none-manylinux_2_17_x86_64"
_IMAGES, _OFF = "FORMATKIT_IMAGES", "off"


def _fits_tag() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"


class ImageHook(BuildHookInterface):
    """Builds the images of compiled code. They lie beside their sources, and wheels take them from there.

    They are never needed: where none can be built, what is built is a wheel for every platform.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        images = self._images() if _fits_tag() and os.environ.get(_IMAGES) != _OFF else []
        # git ignores them, and so would hatchling.
        build_data["artifacts"].extend(f"/{image.relative_to(self.root).as_posix()}" for image in images)
        if images and version != "editable":
            build_data["tag"] = _TAG

    def _images(self) -> list[Path]:
        """Images of the sources as they are now."""
        folders = sorted(Path(self.root).glob("src/formatkit/formats/*/kernels"))
        builds = [self._build(folder) for folder in folders]
        images = []
        for folder, build in zip(folders, builds, strict=True):
            image, messages = build.communicate()
            if image and build.returncode == 0:
                images.append(Path(image.rstrip("\n")))
            else:
                self.app.display_warning(f"{messages}The kernels in {folder} cannot be compiled; going on without.")
        return images

    def _build(self, folder: Path) -> subprocess.Popen[str]:
        sources = Path(self.root) / "src"
        package = ".".join(folder.relative_to(sources).parts)
        # pip shows the packages of its build environment by PYTHONPATH.
        path = os.pathsep.join(filter(None, (str(sources), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", _IMAGES: str(folder)}
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "formatkit.batches.compiled", package],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
