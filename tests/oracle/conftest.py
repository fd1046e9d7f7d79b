"""One process of each other implementation for the whole run, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.oracle.installation import is_installed, start_java, start_rust
from support.oracle.servant import Servant


@pytest.fixture(scope="session")
def java() -> Iterator[Servant]:
    yield from _running(start_java)


@pytest.fixture(scope="session")
def rust() -> Iterator[Servant]:
    yield from _running(start_rust)


def _running(start: Callable[[], Servant]) -> Iterator[Servant]:
    if not is_installed():
        pytest.fail("The other implementations are not installed; `make oracle` does that")
    servant = start()
    yield servant
    servant.close()
