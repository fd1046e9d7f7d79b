from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from formatkit.errors import (
    ConfigurationError,
    DuplicateFormatError,
    FormatNotRegisteredError,
    PluginLoadError,
)
from formatkit.registry import FormatRegistry, default_registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Rows:
    """A batch type."""


class OtherRows:
    """Another batch type."""


class Plugin:
    capabilities: frozenset[Any] = frozenset()

    def __init__(
        self,
        file_format: str = "toy",
        batch_type: type = Rows,
        extensions: tuple[str, ...] = (),
        magic: bytes = b"",
    ) -> None:
        self.file_format = file_format
        self.batch_type = batch_type
        self.extensions = extensions
        self.magic = magic

    def reader(self) -> Any:
        raise NotImplementedError

    def writer(self) -> Any:
        raise NotImplementedError


class Operations:
    def __init__(self, batch_type: type = Rows) -> None:
        self.batch_type = batch_type


PLUGIN_SOURCE = """
class Plugin:
    file_format = {file_format!r}
    batch_type = {batch_type}
    capabilities = frozenset()
    extensions = (".{file_format}",)
    magic = b""
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a distribution on the path: a module and the metadata that declares its entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))
    modules: set[str] = set()

    def put(
        distribution: str,
        name: str,
        source: str,
        *,
        group: str = "formatkit.formats",
        attribute: str = "Plugin",
        requires: tuple[str, ...] = (),
        extras: tuple[str, ...] = (),
    ) -> None:
        module = distribution.replace("-", "_")
        modules.add(module)
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source))
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        headers = [
            "Metadata-Version: 2.1",
            f"Name: {distribution}",
            "Version: 1.0",
            *(f"Requires-Dist: {each}" for each in requires),
            *(f"Provides-Extra: {each}" for each in extras),
        ]
        (info / "METADATA").write_text("\n".join(headers) + "\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{attribute}\n")

    yield put
    for module in modules:
        sys.modules.pop(module, None)


def test_a_registered_plugin_is_found_by_name_in_any_case_and_by_batch_type() -> None:
    registry = FormatRegistry()
    plugin = Plugin()
    registry.register(plugin)
    assert registry.plugin("toy", Rows) is plugin
    assert registry.plugin("TOY", Rows) is plugin
    assert registry.names() == ("toy",)
    assert registry.plugins() == (plugin,)


def test_one_format_serves_several_batch_types() -> None:
    registry = FormatRegistry()
    first, second = Plugin(), Plugin(batch_type=OtherRows)
    registry.register(first)
    registry.register(second)
    assert registry.plugin("toy", Rows) is first
    assert registry.plugin("toy", OtherRows) is second


def test_registries_do_not_share_plugins() -> None:
    first, second = FormatRegistry(), FormatRegistry()
    first.register(Plugin())
    assert second.names() == ()


def test_a_duplicate_is_refused_and_the_first_plugin_stays() -> None:
    registry = FormatRegistry()
    plugin = Plugin()
    registry.register(plugin)
    with pytest.raises(DuplicateFormatError, match="'toy'"):
        registry.register(Plugin())
    assert registry.plugin("toy", Rows) is plugin


def test_an_unknown_format_is_refused_with_what_is_installed() -> None:
    registry = FormatRegistry()
    registry.register(Plugin())
    with pytest.raises(FormatNotRegisteredError, match=r"'nope'.*installed formats: toy.*registry.register") as caught:
        registry.plugin("nope", Rows)
    assert caught.value.available == ("toy",)  # type: ignore[attr-defined]


def test_a_known_format_for_another_batch_type_is_refused_with_the_types_it_has() -> None:
    registry = FormatRegistry()
    registry.register(Plugin())
    with pytest.raises(FormatNotRegisteredError, match=r"OtherRows; it is installed for: .*Rows"):
        registry.plugin("toy", OtherRows)


@pytest.mark.parametrize("plugin", [Plugin(file_format="Toy"), Plugin(file_format=""), Plugin])
def test_a_plugin_that_cannot_be_keyed_is_refused(plugin: Any) -> None:
    with pytest.raises(ConfigurationError):
        FormatRegistry().register(plugin)


def test_batch_operations_are_found_by_batch_type() -> None:
    registry = FormatRegistry()
    operations: Any = Operations()
    registry.register_batch(operations)
    assert registry.batches(Rows) is operations
    with pytest.raises(DuplicateFormatError, match="Rows"):
        registry.register_batch(operations.__class__())
    with pytest.raises(FormatNotRegisteredError, match=r"OtherRows; known batch types: .*Rows"):
        registry.batches(OtherRows)


def test_an_installed_plugin_is_imported_when_its_format_is_asked_for(install: Install) -> None:
    install("strange-format", "strange", PLUGIN_SOURCE.format(file_format="strange", batch_type="int"))
    registry = FormatRegistry.from_entry_points()
    assert "strange" in registry.names()
    assert "strange_format" not in sys.modules
    assert registry.plugin("strange", int).extensions == (".strange",)
    assert "strange_format" in sys.modules


def test_an_entry_point_name_may_carry_a_word_after_a_plus(install: Install) -> None:
    install("plus-format", "plus+int", PLUGIN_SOURCE.format(file_format="plus", batch_type="int"))
    registry = FormatRegistry.from_entry_points()
    assert "plus" in registry.names()
    assert registry.plugin("plus", int).file_format == "plus"


def test_two_distributions_that_claim_one_place_are_both_named(install: Install) -> None:
    source = PLUGIN_SOURCE.format(file_format="contested", batch_type="int")
    install("first-claimant", "contested", source)
    install("second-claimant", "contested", source)
    registry = FormatRegistry.from_entry_points()
    for _ in range(2):
        with pytest.raises(DuplicateFormatError, match=r"first-claimant|second-claimant") as caught:
            registry.plugin("contested", int)
        assert "first-claimant" in str(caught.value)
        assert "second-claimant" in str(caught.value)
    with pytest.raises(DuplicateFormatError):
        registry.register(Plugin("contested", int))
    assert "contested" not in {plugin.file_format for plugin in registry.plugins()}
    assert "contested" in registry.failures()


def test_two_distributions_may_share_a_format_with_different_batch_types(install: Install) -> None:
    install("ints-format", "shared", PLUGIN_SOURCE.format(file_format="shared", batch_type="int"))
    install("strs-format", "shared", PLUGIN_SOURCE.format(file_format="shared", batch_type="str"))
    registry = FormatRegistry.from_entry_points()
    assert registry.plugin("shared", int).batch_type is int
    assert registry.plugin("shared", str).batch_type is str


@pytest.mark.parametrize(
    ("requires", "extras", "advice"),
    [
        ((), ("broken",), r'pip install "broken-format\[broken\]"'),
        (('no-such-module>=1; extra == "speed"',), ("speed",), r'pip install "broken-format\[speed\]"'),
        (
            ('no-such-module>=1; extra == "dev"', 'no-such-module>=1; extra == "no_such_module"'),
            ("dev", "no_such_module"),
            r'pip install "broken-format\[no_such_module\]"',
        ),
        ((), (), r"module 'no_such_module'"),
    ],
)
def test_a_missing_dependency_names_the_remedy_and_spoils_no_other_format(
    install: Install, requires: tuple[str, ...], extras: tuple[str, ...], advice: str
) -> None:
    install("broken-format", "broken", "import no_such_module.part", requires=requires, extras=extras)
    install("whole-format", "whole", PLUGIN_SOURCE.format(file_format="whole", batch_type="int"))
    registry = FormatRegistry.from_entry_points()
    with pytest.raises(PluginLoadError, match=advice):
        registry.plugin("broken", int)
    assert registry.plugin("whole", int).file_format == "whole"
    assert "broken" in registry.failures()
    assert "whole" not in registry.failures()


@pytest.mark.parametrize("source", ["1 / 0", "other = 1", "class Plugin:\n    def __init__(self): raise RuntimeError"])
def test_a_plugin_that_fails_in_any_other_way_names_its_distribution(install: Install, source: str) -> None:
    install("failing-format", "failing", source)
    with pytest.raises(PluginLoadError, match="failing-format"):
        FormatRegistry.from_entry_points().plugin("failing", int)


def test_a_plugin_with_another_name_than_its_entry_point_is_refused(install: Install) -> None:
    install("liar-format", "liar", PLUGIN_SOURCE.format(file_format="honest", batch_type="int"))
    with pytest.raises(PluginLoadError, match=r"'liar' of liar-format .* 'honest'"):
        FormatRegistry.from_entry_points().plugin("liar", int)


def test_a_batch_type_that_cannot_be_loaded_leaves_the_others_usable(install: Install) -> None:
    install("bad-batches", "bad", "import no_such_module", group="formatkit.batches")
    install("good-batches", "good", "class Plugin:\n    batch_type = int", group="formatkit.batches")
    registry = FormatRegistry.from_entry_points()
    assert registry.batches(int).batch_type is int
    with pytest.raises(PluginLoadError, match="bad-batches"):
        registry.batches(str)


def test_two_distributions_that_bring_one_batch_type_are_both_named(install: Install) -> None:
    for name in ("one-batches", "two-batches"):
        install(name, name, "class Plugin:\n    batch_type = int", group="formatkit.batches")
    with pytest.raises(DuplicateFormatError, match=r"one-batches and two-batches|two-batches and one-batches"):
        FormatRegistry.from_entry_points().batches(int)


@pytest.mark.parametrize(
    ("location", "head", "expected"),
    [
        ("s3://bucket/a.b/file.toy", b"", "toy"),
        ("FILE.TOY", b"", "toy"),
        ("file.plaything", b"", "toy"),
        ("file.other", b"TOYX", "toy"),
        ("file", b"TOY2", "newer"),
        ("toy.d/file", b"TOY2", "newer"),
    ],
)
def test_a_format_is_told_by_the_ending_and_then_by_the_first_bytes(location: str, head: bytes, expected: str) -> None:
    registry = FormatRegistry()
    registry.register(Plugin("toy", extensions=(".toy", ".plaything"), magic=b"TOY"))
    registry.register(Plugin("newer", magic=b"TOY2"))
    registry.register(Plugin("mute"))
    assert registry.detect(location, head) == expected


def test_a_file_of_no_known_format_is_refused_with_the_names_to_choose_from() -> None:
    registry = FormatRegistry()
    registry.register(Plugin("toy", magic=b"TOY"))
    with pytest.raises(FormatNotRegisteredError, match=r"x\.dat .*file_format=.*toy"):
        registry.detect("x.dat", b"????")


def test_concurrent_lookups_load_a_plugin_once(install: Install) -> None:
    source = "import time\ntime.sleep(0.05)\n" + PLUGIN_SOURCE.format(file_format="slow", batch_type="int")
    install("slow-format", "slow", source)
    registry = FormatRegistry.from_entry_points()
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(registry.plugin("slow", int))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(plugin) for plugin in found}) == 1


def test_the_default_registry_is_one_object_with_the_built_in_formats() -> None:
    assert default_registry() is default_registry()
    assert "parquet" in default_registry().names()


def test_listing_names_imports_neither_plugins_nor_pyarrow() -> None:
    program = """
        import sys
        import formatkit
        from formatkit.registry import default_registry
        assert "parquet" in default_registry().names()
        assert "pyarrow" not in sys.modules
        assert "formatkit.formats" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
