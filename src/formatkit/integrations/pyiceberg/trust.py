"""Lets pyiceberg's catalogs take from a table what it may say, and no code to import."""
# ruff: noqa: SLF001 - the one place through which each catalog makes the FileIO of a table

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from types import MethodType
from typing import Any, cast

from pyiceberg.catalog import (
    _ENV_CONFIG,
    PY_CATALOG_IMPL,
    TYPE,
    URI,
    Catalog,
    MetastoreCatalog,
    load_catalog,
)
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.io import FileIO
from pyiceberg.io import pyarrow as pyiceberg_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StagedTable, StaticTable, Table
from pyiceberg.table.locations import LocationProvider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import EMPTY_DICT, Properties, RecursiveDict
from pyiceberg.utils.config import merge_config
from requests import PreparedRequest, ReadTimeout, Response, Session
from requests.adapters import HTTPAdapter

from formatkit.errors import StorageError
from formatkit.integrations.pyiceberg.patches import Patches
from formatkit.io import current_runtime
from formatkit.io.failures import timeout_of
from formatkit.io.pyiceberg.trust import (
    LOCATION_PROVIDER,
    load_for_table,
    load_provider_for_table,
    refuse_code,
    settings_of_table,
)

__all__ = ["configured", "guarded", "load_guarded_catalog", "replace_loaders"]

# pyiceberg's functions that write data files know the metadata of the table only, and not its catalog. What catalogs
# of this process have in their configuration is believed of their tables.
_configured_providers: set[str] = set()


def configured(metadata: TableMetadata) -> Properties:
    """The location provider of a table, if the configuration of a catalog in this process names it too."""
    name = metadata.properties.get(LOCATION_PROVIDER)
    return {LOCATION_PROVIDER: name} if name in _configured_providers else {}


def load_guarded_catalog(name: str | None, properties: Mapping[str, str]) -> Catalog:
    """Open a catalog as `load_catalog` does, but take no code to import from its tables or its server."""
    name = name or _ENV_CONFIG.get_default_catalog_name()
    given = cast("RecursiveDict", dict(properties))
    merged = merge_config(_ENV_CONFIG.get_catalog_config(name) or {}, given)
    if PY_CATALOG_IMPL not in properties and _is_rest(merged):
        return guarded(_GuardedRestCatalog(name, **cast("dict[str, str]", merged)))
    return guarded(load_catalog(name, **properties))


def _is_rest(configuration: Mapping[str, Any]) -> bool:
    """Whether pyiceberg would make a REST catalog of it."""
    kind, uri = configuration.get(TYPE), configuration.get(URI)
    return isinstance(uri, str) and (str(kind).lower() == "rest" if kind else uri.startswith("http"))


class _ImpatientAdapter(HTTPAdapter):
    """Sends requests that end if the server is silent or sends a byte now and then; pyiceberg would wait for ever."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def send(self, request: PreparedRequest, *arguments: Any, **named: Any) -> Response:
        patient = {**named, "timeout": named.get("timeout") or self._seconds}

        def whole_answer() -> Response:
            response = super(_ImpatientAdapter, self).send(request, *arguments, **patient)
            response.content  # noqa: B018 - read and kept
            return response

        try:
            # Time-outs of sockets begin again with each byte.
            return current_runtime().run(whole_answer, timeout=self._seconds)
        except StorageError as error:
            raise ReadTimeout(f"{request.url} has not answered in {self._seconds:g} s", request=request) from error


class _GuardedRestCatalog(RestCatalog):
    """A REST catalog that imports nothing because its server says so, and does not wait for ever for it."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        adapter = _ImpatientAdapter(timeout_of(self.properties) or current_runtime().timeout_seconds)
        for scheme in ("http://", "https://"):
            session.mount(scheme, adapter)
        return session

    def _fetch_config(self) -> None:
        given = dict(self.properties)
        super()._fetch_config()
        _refuse_code_of_server(self, given)


def _refuse_code_of_server(catalog: RestCatalog, given: Properties) -> None:
    refuse_code(catalog.properties, given, f"the configuration that {given.get('uri')} answers")


def guarded(catalog: Catalog) -> Catalog:
    """The catalog itself, which from now on takes no code to import from its tables."""
    for name, function in _guards(type(catalog)).items():
        setattr(catalog, name, MethodType(function, catalog))
    _note(catalog)
    return catalog


def replace_loaders(patches: Patches) -> None:
    """Catalogs, static tables and writers load no class that only a table names."""
    for owner in (Catalog, MetastoreCatalog, RestCatalog):
        for name, function in _guards(owner).items():
            if name in vars(owner):
                patches.replace(owner, name, function)
    _replace_configuration(patches)
    patches.replace(StaticTable, "from_metadata", classmethod(_from_metadata))
    patches.replace(Table, "location_provider", _location_provider)
    patches.replace(pyiceberg_io, "load_location_provider", _load_location_provider)


def _guards(owner: Any) -> dict[str, Any]:
    """What a class of catalogs does to load tables, with a check before it."""
    found: dict[str, Any] = {}
    if issubclass(owner, RestCatalog):
        found["_response_to_table"] = _checked_response(owner._response_to_table)
        found["_response_to_staged_table"] = _checked_response(owner._response_to_staged_table)
    else:
        found["_load_file_io"] = _load_file_io
    if issubclass(owner, MetastoreCatalog):
        found["_update_and_stage_table"] = _checked_update(owner._update_and_stage_table)
    return found


def _load_file_io(self: Catalog, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
    """As in pyiceberg, where the properties are those of a table's metadata, or none."""
    _note(self)
    return load_for_table(self.properties, properties, location)


def _checked_response(original: Any) -> Any:
    @wraps(original)
    def response_to_table(self: RestCatalog, identifier: tuple[str, ...], response: TableResponse) -> Any:
        # The server may say how the storage is reached, and has the credentials for it; the table may not.
        _note(self)
        metadata = response.metadata
        origin = f"the metadata file {response.metadata_location}"
        settings = settings_of_table(metadata.properties, self.properties, origin)
        for answer in (response.config, *(each.config for each in response.storage_credentials)):
            refuse_code(answer, self.properties, f"the answer of {self.uri}")
        believed = response.model_copy(update={"metadata": metadata.model_copy(update={"properties": settings})})
        table: Table | StagedTable = original(self, identifier, believed)
        table.metadata = metadata
        return table

    return response_to_table


def _checked_update(original: Any) -> Any:
    @wraps(original)
    def _update_and_stage_table(self: MetastoreCatalog, current_table: Table | None, *more: Any, **named: Any) -> Any:
        if current_table is not None:
            # pyiceberg asks it for the name of the new metadata file.
            _provider(current_table.metadata, self)
        return original(self, current_table, *more, **named)

    return _update_and_stage_table


def _replace_configuration(patches: Patches) -> None:
    """A server of the REST protocol may not name code either, when it says how it is to be used."""
    original = RestCatalog._fetch_config

    @wraps(original)
    def _fetch_config(self: RestCatalog) -> None:
        given = dict(self.properties)
        original(self)
        _refuse_code_of_server(self, given)

    patches.replace(RestCatalog, "_fetch_config", _fetch_config)


def _from_metadata(cls: type[StaticTable], metadata_location: str, properties: Properties = EMPTY_DICT) -> StaticTable:
    if not metadata_location.endswith(".metadata.json"):
        metadata_location = cls._metadata_location_from_version_hint(metadata_location, properties)
    reading = load_for_table(properties, {}, metadata_location)
    metadata = FromInputFile.table_metadata(reading.new_input(metadata_location))
    return cls(
        identifier=("static-table", metadata_location),
        metadata_location=metadata_location,
        metadata=metadata,
        io=load_for_table(properties, metadata.properties, metadata_location),
        catalog=NoopCatalog("static-table"),
    )


def _location_provider(self: Table) -> LocationProvider:
    """Return the table's location provider."""
    return _provider(self.metadata, self.catalog)


def _provider(metadata: TableMetadata, catalog: Catalog) -> LocationProvider:
    _note(catalog)
    origin = f"the table at {metadata.location}"
    return load_provider_for_table(metadata.location, metadata.properties, catalog.properties, origin)


def _load_location_provider(table_location: str, table_properties: Properties) -> LocationProvider:
    name = table_properties.get(LOCATION_PROVIDER)
    trusted = {LOCATION_PROVIDER: name} if name in _configured_providers else {}
    return load_provider_for_table(table_location, table_properties, trusted, f"the table at {table_location}")


def _note(catalog: Catalog) -> None:
    if name := catalog.properties.get(LOCATION_PROVIDER):
        _configured_providers.add(name)
