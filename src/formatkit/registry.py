"""Which plugin serves which file format, for which type of batch.

Plugins are found through entry points and imported when somebody asks for their format, not before: knowing the names
imports nothing, and a plugin that cannot be imported spoils nobody else's format.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, cast

from formatkit.contract.batch import DataBatch
from formatkit.contract.format import FormatPlugin
from formatkit.errors import ConfigurationError, DuplicateFormatError, FormatNotRegisteredError, PluginLoadError
from formatkit.forks import fork_safe, uninterrupted

__all__ = ["BATCHES_GROUP", "FORMATS_GROUP", "FormatRegistry", "default_registry"]

B = TypeVar("B")
K = TypeVar("K", bound=tuple[str, type] | type)

FORMATS_GROUP = "formatkit.formats"
BATCHES_GROUP = "formatkit.batches"


@dataclass(frozen=True)
class _Registered:
    """A plugin or batch operations object, and whom to name when another one claims its place."""

    thing: Any
    origin: str


_Places = dict[K, _Registered | DuplicateFormatError]


class FormatRegistry:
    """Plugins by (file format, batch type) and batch operations by batch type.

    Registries share nothing with each other. All methods may be called from several threads.
    """

    def __init__(self, formats: Iterable[EntryPoint] = (), batches: Iterable[EntryPoint] = ()) -> None:
        self._lock = fork_safe(threading.RLock())
        self._plugins: _Places[tuple[str, type]] = {}
        self._batches: _Places[type] = {}
        self._pending_formats: dict[str, list[EntryPoint]] = {}
        for entry_point in formats:
            self._pending_formats.setdefault(_format_of(entry_point), []).append(entry_point)
        self._pending_batches = list(batches)
        self._names = set(self._pending_formats)
        self._format_failures: dict[str, list[PluginLoadError | DuplicateFormatError]] = {}
        self._batch_failures: list[PluginLoadError] = []

    @classmethod
    def from_entry_points(cls) -> FormatRegistry:
        """A registry of everything that is installed. Imports no plugin."""
        return cls(entry_points(group=FORMATS_GROUP), entry_points(group=BATCHES_GROUP))

    def register(self, plugin: FormatPlugin[Any]) -> None:
        """Add a plugin. Raises `DuplicateFormatError` if its format and batch type are taken."""
        _check_plugin(plugin)
        with self._lock:
            self._load_format(plugin.file_format, plugin.batch_type)
            _claim(self._plugins, _plugin_key(plugin), _Registered(plugin, _class_name(plugin)))
            self._names.add(plugin.file_format)

    def register_batch(self, operations: DataBatch[Any]) -> None:
        """Add the operations of a batch type. Raises `DuplicateFormatError` if it has some."""
        with self._lock:
            self._load_batches(operations.batch_type)
            _claim(self._batches, operations.batch_type, _Registered(operations, _class_name(operations)))

    def plugin(self, file_format: str, batch_type: type[B]) -> FormatPlugin[B]:
        """The plugin that serves a format, whose name is taken in any case.

        Raises:
            FormatNotRegisteredError: Nothing is installed for this pair.
            PluginLoadError: What is installed cannot be imported; the message says what to install.
            DuplicateFormatError: Two installed distributions claim the pair.
        """
        name = file_format.lower()
        with self._lock:
            self._load_format(name, batch_type)
            found = self._plugins.get((name, batch_type))
            if found is None:
                self._load_format(name)  # so that the message can say what there is
                # The plugin for this batch type may be the very one that could not be loaded.
                failures = self._format_failures.get(name)
                raise failures[0] if failures else self._format_not_registered(name, batch_type)
        if isinstance(found, DuplicateFormatError):
            raise found
        return cast("FormatPlugin[B]", found.thing)

    def batches(self, batch_type: type[B]) -> DataBatch[B]:
        """The operations on batches of a type. Raises as `plugin` does."""
        with self._lock:
            self._load_batches(batch_type)
            found = self._batches.get(batch_type)
            if found is None:
                self._load_batches()
                raise self._batch_failures[0] if self._batch_failures else self._batch_not_registered(batch_type)
        if isinstance(found, DuplicateFormatError):
            raise found
        return cast("DataBatch[B]", found.thing)

    def names(self) -> tuple[str, ...]:
        """The names of all formats that are installed or registered, sorted. Imports no plugin."""
        with self._lock:
            return tuple(sorted(self._names))

    def plugins(self, file_format: str | None = None) -> tuple[FormatPlugin[Any], ...]:
        """All plugins that can be imported, by name, or those of one format; `failures` has the others."""
        with self._lock:
            if file_format is None:
                self._load_all_formats()
            else:
                self._load_format(file_format)
            found = sorted(self._plugins.items(), key=lambda item: (item[0][0], _type_name(item[0][1])))
            return tuple(
                registered.thing
                for (name, _), registered in found
                if isinstance(registered, _Registered) and file_format in (None, name)
            )

    def batch_operations(self) -> tuple[DataBatch[Any], ...]:
        """The operations of all batch types that can be imported, by the name of the type."""
        with self._lock:
            self._load_batches()
            found = sorted(self._batches.items(), key=lambda item: _type_name(item[0]))
            return tuple(registered.thing for _, registered in found if isinstance(registered, _Registered))

    def failures(self) -> dict[str, tuple[PluginLoadError | DuplicateFormatError, ...]]:
        """What is wrong with installed plugins, by format name."""
        with self._lock:
            self._load_all_formats()
            return {name: tuple(errors) for name, errors in sorted(self._format_failures.items())}

    def detect(self, location: str, head: bytes = b"") -> str:
        """The format of a file: by the ending of its name, else by its first bytes.

        An ending that is the name of a format decides without importing anything.

        Raises:
            FormatNotRegisteredError: Neither the ending nor the bytes belong to a known format.
        """
        name = location.rpartition("/")[2].lower()
        ending = name.rpartition(".")[2]
        if ending in self.names():
            return ending
        plugins = self.plugins()
        for plugin in plugins:
            if name.endswith(plugin.extensions):
                return plugin.file_format
        by_magic = [plugin for plugin in plugins if plugin.magic and head.startswith(plugin.magic)]
        if by_magic:
            return max(by_magic, key=lambda plugin: len(plugin.magic)).file_format
        message = (
            f"cannot tell the format of {location} by its name{' or its first bytes' if head else ''}; "
            f"name it with file_format=…, one of: {', '.join(self.names()) or 'none is installed'}"
        )
        raise FormatNotRegisteredError(message, location=location)

    def _format_not_registered(self, name: str, batch_type: type) -> FormatNotRegisteredError:
        others = sorted(_type_name(each) for known, each in self._plugins if known == name)
        if others:
            found = f"it is installed for: {', '.join(others)}"
        else:
            found = f"installed formats: {', '.join(self.names()) or 'none'}"
        message = (
            f"no plugin serves {_pair(name, batch_type)}; {found}. Install a package that offers it "
            f" through the entry-point group {FORMATS_GROUP!r}, or call registry.register(plugin)"
        )
        return FormatNotRegisteredError(message, file_format=name, batch_type=batch_type, available=self.names())

    def _batch_not_registered(self, batch_type: type) -> FormatNotRegisteredError:
        known = ", ".join(sorted(map(_type_name, self._batches))) or "none"
        message = (
            f"no operations for batches of type {_type_name(batch_type)}; known batch types: {known}. Install a "
            f"package that offers them through the entry-point group {BATCHES_GROUP!r}, or call "
            "registry.register_batch(operations)"
        )
        return FormatNotRegisteredError(message, batch_type=batch_type)

    def _load_all_formats(self) -> None:
        for name in list(self._pending_formats):
            self._load_format(name)

    def _load_format(self, name: str, batch_type: type | None = None) -> None:
        if name in self._pending_formats:
            # A child would find it neither pending nor loaded.
            with uninterrupted:
                self._load_pending(name, batch_type)

    def _load_pending(self, name: str, batch_type: type | None) -> None:
        wanted, others = _for_batches(self._pending_formats.pop(name, []), batch_type)
        if others:
            self._pending_formats[name] = others
        for entry_point in wanted:
            try:
                plugin = _load_plugin(entry_point)
                _settle(self._plugins, _plugin_key(plugin), _Registered(plugin, _distribution(entry_point)))
            except (PluginLoadError, DuplicateFormatError) as error:
                self._format_failures.setdefault(name, []).append(error)

    def _load_batches(self, batch_type: type | None = None) -> None:
        if self._pending_batches:
            with uninterrupted:
                self._load_pending_batches(batch_type)

    def _load_pending_batches(self, batch_type: type | None) -> None:
        wanted, self._pending_batches = _for_batches(self._pending_batches, batch_type)
        for entry_point in wanted:
            try:
                operations = _load(entry_point)
            except PluginLoadError as error:
                self._batch_failures.append(error)
            else:
                with suppress(DuplicateFormatError):
                    _settle(self._batches, operations.batch_type, _Registered(operations, _distribution(entry_point)))


def _for_batches(entry_points: list[EntryPoint], batch_type: type | None) -> tuple[list[EntryPoint], list[EntryPoint]]:
    """Those that may serve a batch type (all, if it is None), and those whose names say that they serve another one."""
    wanted: list[EntryPoint] = []
    others: list[EntryPoint] = []
    for entry_point in entry_points:
        said = entry_point.name.rpartition("+")[2]
        elsewhere = batch_type is not None and "." in said and said != _import_name(batch_type)
        (others if elsewhere else wanted).append(entry_point)
    return wanted, others


def _import_name(batch_type: type) -> str:
    """What a user would write: ``pyarrow.RecordBatch``, wherever the class is defined inside pyarrow."""
    return f"{batch_type.__module__.partition('.')[0]}.{batch_type.__qualname__}"


@cache
def default_registry() -> FormatRegistry:
    """The registry of everything that is installed, made when it is first asked for."""
    return FormatRegistry.from_entry_points()


def _plugin_key(plugin: FormatPlugin[Any]) -> tuple[str, type]:
    return plugin.file_format, plugin.batch_type


def _claim(places: _Places[K], key: K, newcomer: _Registered) -> None:
    """Take a free place; a place that is taken stays as it is."""
    holder = places.setdefault(key, newcomer)
    if isinstance(holder, DuplicateFormatError):
        raise holder
    if holder is not newcomer:
        what = f"batches of type {_type_name(key)}" if isinstance(key, type) else _pair(*key)
        message = (
            f"two plugins serve {what}: {holder.origin} and {newcomer.origin}; uninstall one of them, or pass a "
            "FormatRegistry() of your own with the one that you want"
        )
        raise DuplicateFormatError(message, origins=(holder.origin, newcomer.origin))


def _settle(places: _Places[K], key: K, newcomer: _Registered) -> None:
    """Take a free place; where two installed plugins want it, neither gets it, because order means nothing here."""
    try:
        _claim(places, key, newcomer)
    except DuplicateFormatError as error:
        places[key] = error
        raise


def _load_plugin(entry_point: EntryPoint) -> FormatPlugin[Any]:
    plugin: FormatPlugin[Any] = _load(entry_point)
    if plugin.file_format != _format_of(entry_point):
        message = (
            f"the entry point {entry_point.name!r} of {_distribution(entry_point)} leads to a plugin for "
            f"{plugin.file_format!r}; its author must give both the same name"
        )
        raise PluginLoadError(message, file_format=_format_of(entry_point))
    return plugin


def _load(entry_point: EntryPoint) -> Any:
    """Import what an entry point names and make an instance of it."""
    try:
        return entry_point.load()()
    except Exception as error:
        # A stranger's module may fail in any way, and no way may break the other formats.
        message = (
            f"{entry_point.name!r} is installed by {_distribution(entry_point)} but cannot be loaded: "
            f"{type(error).__name__}: {error}. {_remedy(entry_point, error)}"
        )
        raise PluginLoadError(message, file_format=_format_of(entry_point)) from error


def _remedy(entry_point: EntryPoint, error: Exception) -> str:
    distribution = _distribution(entry_point)
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return f"Repair or uninstall {distribution}"
    missing = error.name.partition(".")[0]
    extra = _extra_for(entry_point, missing)
    if extra is None:
        return f"Install the package that provides the module {missing!r}, or uninstall {distribution}"
    return f"""Run: pip install "{distribution}[{extra}]\""""


def _extra_for(entry_point: EntryPoint, module: str) -> str | None:
    """The extra that would bring a module: the one named like the format or the module, or one that requires it."""
    if entry_point.dist is None:
        return None
    extras = entry_point.dist.metadata.get_all("Provides-Extra") or []
    for name in (_format_of(entry_point), module):
        if name in extras:
            return name
    for requirement in entry_point.dist.requires or ():
        project = re.match(r"[\w.-]+", requirement)
        marker = re.search(r"""extra\s*==\s*['"]([^'"]+)""", requirement)
        if project and marker and re.sub(r"[-.]+", "_", project[0]).lower() == module.lower():
            return marker[1]
    return None


def _check_plugin(plugin: FormatPlugin[Any]) -> None:
    if isinstance(plugin, type):
        message = f"register takes a plugin, not its class: register({plugin.__name__}())"
        raise ConfigurationError(message)
    if not plugin.file_format or plugin.file_format != plugin.file_format.lower():
        message = f"the file format {plugin.file_format!r} of {_class_name(plugin)} must be a name in lower case"
        raise ConfigurationError(message)


def _format_of(entry_point: EntryPoint) -> str:
    return entry_point.name.partition("+")[0].lower()


def _distribution(entry_point: EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist is not None else entry_point.value


def _pair(file_format: str, batch_type: type) -> str:
    return f"file format {file_format!r} with batches of type {_type_name(batch_type)}"


def _class_name(thing: object) -> str:
    return _type_name(type(thing))


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
