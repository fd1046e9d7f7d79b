"""Finds out whether a table or a data file is what it says: counts, bounds, metrics, deletes, references."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyiceberg.table import Table

from formatkit.errors import ConfigurationError, FileMissingError, FormatkitError
from formatkit.io import InputLocation, IoRuntime, current_runtime, with_runtime
from formatkit.registry import FormatRegistry
from formatkit.scan.load import load_table
from formatkit.validation.files import check_file
from formatkit.validation.findings import CODES, Finding, Findings, Report
from formatkit.validation.reading import rows_of_file
from formatkit.validation.tables import TableValidation
from formatkit.write.jobs import Engine, LocalEngine, Progress

__all__ = ["CODES", "Finding", "Report", "validate"]

_METADATA = ".metadata.json"
_MAX_THREADS = 8


def validate(
    target: Table | InputLocation,
    *,
    snapshot_id: int | None = None,
    metadata_only: bool = False,
    file_format: str | None = None,
    registry: FormatRegistry | None = None,
    threads: int | None = None,
    runtime: IoRuntime | None = None,
    engine: Engine | None = None,
    dry_run: bool = False,
    journal: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Read a table or a data file to the last row, and report everything that contradicts itself.

    Of a table the metadata of all snapshots is checked, and the rows of the current one. Damage is a finding and never
    an exception, and does not keep the rest from being checked.

    Args:
        target: A table, the location of a table's ``.metadata.json``, or a data file as `read_file` takes it.
        snapshot_id: Check this snapshot of a table and no other.
        metadata_only: Decode no rows: only metadata, and whether files exist.
        file_format: The format of a data file, if its name and first bytes do not tell.
        registry: Where formats are looked up; everything that is installed by default.
        threads: How many files to read side by side in this process; by default one a processor, 8 at most.
        runtime: Where storage calls run; by default the current one.
        engine: Where the files of a table are read; in this process if left out. `formatkit.spark.SparkEngine(spark)`
            lets executors do it.
        dry_run: Read the metadata of a table only; `Report.planned` says what else there is to check.
        journal: A file on a local disk where files of the table are noted as they are checked. A run that finds the
            journal of one that was stopped leaves these files out and reports what was found in them.
        progress: Called with how many files were checked, and how many there are to check. Files to which something
            refers count once for that, and once more if their rows are read.

    Raises:
        FileMissingError: There is no file at the target.
        ConfigurationError: An option does not fit the target, or the table has no such snapshot.
    """
    if threads is not None and threads < 1:
        raise ConfigurationError(f"threads must be at least 1, not {threads}")
    findings, name = Findings(), _name(target)
    io_runtime = runtime or current_runtime()
    with with_runtime(io_runtime):
        if not isinstance(target, Table) and not name.endswith(_METADATA):
            if snapshot_id is not None or metadata_only or dry_run or engine is not None or journal is not None:
                asked = "snapshot_id, metadata_only, dry_run, engine and journal are for tables"
                raise ConfigurationError(f"{asked}; {name} is one data file")
            _validate_file(target, findings, file_format, registry, io_runtime)
            return findings.report(name)
        if file_format is not None:
            raise ConfigurationError(f"file_format is for a data file; each file of the table {name} has its own")
        table = target if isinstance(target, Table) else _load(name, findings)
        planned: Mapping[str, int] = {}
        if table is not None:
            planned = TableValidation(
                table,
                findings,
                snapshot_id=snapshot_id,
                metadata_only=metadata_only,
                registry=registry,
                runtime=io_runtime,
                engine=engine or LocalEngine(threads or min(os.cpu_count() or 1, _MAX_THREADS)),
            ).run(dry_run=dry_run, progress=progress, journal=journal)
    return findings.report(name, planned)


def _validate_file(
    target: InputLocation,
    findings: Findings,
    file_format: str | None,
    registry: FormatRegistry | None,
    runtime: IoRuntime,
) -> None:
    try:
        rows = rows_of_file(target, file_format, registry, runtime)
    except (FileMissingError, ConfigurationError):
        # Not a fault of the file: there is nothing to validate.
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding about this file
        findings.add_error(error, _name(target), "a data file")
    else:
        check_file(rows, findings)


def _load(location: str, findings: Findings) -> Table | None:
    try:
        return load_table(location)
    except (FileMissingError, ConfigurationError):
        raise
    except FormatkitError as error:
        findings.add_error(error, location, "the metadata of an Iceberg table", corrupt="metadata-corrupt")
        return None


def _name(target: Table | InputLocation) -> str:
    if isinstance(target, Table):
        return target.metadata_location
    if isinstance(target, str | os.PathLike):
        return os.fspath(target)
    return str(getattr(target, "location", f"{type(target).__name__} in memory"))
