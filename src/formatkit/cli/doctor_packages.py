"""What is installed: Python, the packages that formatkit needs, its extras, and the plugins of formats."""

from __future__ import annotations

import platform
import re
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import Distribution, PackageNotFoundError, distribution, requires, version
from typing import NamedTuple

from formatkit.cli.doctor_findings import Finding
from formatkit.errors import DuplicateFormatError, PluginLoadError

__all__ = ["package_findings"]

_REQUIREMENT = re.compile(r"""(?P<project>[\w.-]+)[^;]*(?:;.*extra\s*==\s*['"](?P<extra>[\w-]+))?""")
_FOR_DEVELOPERS = "dev"
_COMPILED = tuple(f"formatkit.formats.{name}.kernels" for name in ("avro", "orc", "parquet"))


class _Requirement(NamedTuple):
    project: str
    extra: str | None


def package_findings() -> Iterator[Finding]:
    """All that can be said about installed packages."""
    yield Finding("python", "formatkit", "ok", version("formatkit"))
    yield Finding("python", platform.python_implementation(), "ok", f"{platform.python_version()}, {sys.executable}")
    yield Finding("python", "platform", "ok", platform.platform())
    for requirement in _requirements():
        yield _package(requirement)
    yield from _formats()
    for package in _COMPILED:
        yield _compiled(package)


def _requirements() -> list[_Requirement]:
    """What formatkit itself needs, and then what its extras do."""
    found = [_Requirement(**match.groupdict()) for text in requires("formatkit") or () if (match := _parsed(text))]
    return sorted((each for each in found if each.extra != _FOR_DEVELOPERS), key=lambda each: each.extra or "")


def _parsed(text: str) -> re.Match[str] | None:
    return _REQUIREMENT.match(text)


def _modules(installed: Distribution) -> list[str]:
    """The packages that a distribution brings."""
    files = installed.files or ()
    found = {file.parts[0] for file in files if len(file.parts) == 2 and file.name == "__init__.py"}
    return sorted(name for name in found if name.isidentifier() and not name.startswith("_"))


def _package(requirement: _Requirement) -> Finding:
    project, extra = requirement
    area = "packages" if extra is None else "extras"
    name = project if extra is None else f"{extra} ({project})"
    try:
        installed = distribution(project)
    except PackageNotFoundError:
        if extra is None:
            return Finding(area, name, "broken", "not installed, though formatkit needs it", f"pip install {project}")
        return Finding(area, name, "missing", "not installed", f"""pip install "formatkit[{extra}]\"""")
    for module in _modules(installed):
        try:
            with warnings.catch_warnings(action="ignore"):
                import_module(module)
        except Exception as error:  # noqa: BLE001 - whatever it raises, that is what is to be reported
            failure = f"{installed.version}; {module} cannot be imported: {type(error).__name__}: {error}"
            return Finding(area, name, "broken", failure, f"pip install --force-reinstall {project}")
    return Finding(area, name, "ok", installed.version)


def _formats() -> Iterator[Finding]:
    from formatkit.registry import default_registry

    registry = default_registry()
    for plugin in registry.plugins():
        yield Finding("formats", plugin.file_format, "ok", f"as {plugin.batch_type.__qualname__}")
    for name, failures in registry.failures().items():
        for failure in failures:
            yield _failed_format(name, failure)


def _failed_format(name: str, failure: PluginLoadError | DuplicateFormatError) -> Finding:
    """An extra that is not installed is no fault of its plugin."""
    reason, _, advice = str(failure).partition(". Run: ")
    return Finding("formats", name, "missing" if advice else "broken", reason, advice)


def _compiled(package: str) -> Finding:
    from formatkit.batches.compiled.images import processor
    from formatkit.batches.compiled.loading import are_ready, refused_images

    name, level = package.split(".")[-2], processor()
    if are_ready(package):
        return Finding("compiled code", name, "ok", f"an image for {level} processors")
    if level is None:
        return Finding("compiled code", name, "ok", "no images on this system: numba compiles once that pays")
    advice = f"python -m formatkit.batches.compiled {package}"
    if refused := refused_images(package):
        return Finding("compiled code", name, "broken", f"its image is not used: {refused}", advice)
    return Finding("compiled code", name, "missing", "no image: numba compiles once that pays", advice)
