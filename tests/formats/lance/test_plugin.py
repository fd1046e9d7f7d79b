"""The plugin for Lance costs nothing to those who do not use it."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from formatkit.errors import PluginLoadError
from formatkit.registry import FormatRegistry

USE = """
import sys
import pyarrow as pa
from formatkit.registry import FormatRegistry
plugin = FormatRegistry.from_entry_points().plugin("lance", pa.RecordBatch)
assert plugin.file_format == "lance"
print("lance" in sys.modules)
"""


def test_the_library_is_imported_when_a_file_is_opened_and_not_before() -> None:
    outcome = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "False"


def test_a_missing_library_is_reported_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance", None)
    with pytest.raises(PluginLoadError, match=r"pip install \"formatkit\[lance\]\""):
        FormatRegistry.from_entry_points().plugin("lance", pa.RecordBatch)
