"""The Python in the documentation runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.repository import ROOT, SOURCE, tracked_files

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)(?:#([\w-]+))?\)")
PAGES = sorted(path for path in tracked_files() if path.suffix == ".md")


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_python_blocks_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), names)
    if "catalog" in names:
        names["catalog"].close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        linked = (page.parent / target).resolve()
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_that_are_named_exist(page: Path) -> None:
    named = re.findall(
        r"`((?:src|tests|docs|rfcs|examples|benchmarks|contract|kernel|batches|formats|io|scan|write|cli|tck)/[\w./-]*)`",
        page.read_text(),
    )
    assert [path for path in named if not (ROOT / path).exists() and not (SOURCE / path).exists()] == []
