"""The options of a write, by the names that Iceberg gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.spark.options import CATALOG_PREFIX, NamedOptions, nearest_name, plain_name

__all__ = ["WriteOptions", "parse_write_options", "refuse_stream_options"]

SNAPSHOT_PREFIX = "snapshot-property."
PROPERTY_PREFIX = "write."
_PREFIXES = (SNAPSHOT_PREFIX, CATALOG_PREFIX, PROPERTY_PREFIX)
_NAMES = (
    "path",
    "catalog",
    "write-format",
    "target-file-size-bytes",
    "branch",
    "distribution-mode",
    "fanout-enabled",
    "use-table-distribution-and-ordering",
    "advisory-partition-size",
    "overwrite-mode",
    "filter",
    "case-sensitive",
    "isolation-level",
    "validate-from-snapshot-id",
    "compression-codec",
    "compression-level",
    "compression-strategy",
    "merge-schema",
    "check-nullability",
    "check-ordering",
    "output-spec-id",
    "output-sort-order-id",
    "idempotency-key",
    "upsert-enabled",
    "join-columns",
    # Of no use here, because no delete file is written, and harmless in programs that were written for Iceberg's sink.
    "delete-format",
    "delete-granularity",
)
_REFUSED = {
    "shred-variants": "variants are written whole",
    "handle-timestamp-without-timezone": "a timestamp without a zone is written as one",
}
_DISTRIBUTIONS = ("none", "hash", "range")


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """What a user asks of a write; None where nothing was said. Can be pickled.

    Attributes:
        file_format: The format of new files.
        target_file_bytes: About how long files get.
        branch: Where to commit.
        distribution: ``none``, ``hash`` or ``range``.
        fanout: Whether rows of many partitions may come mixed, so that they are not sorted before they are written.
        advisory_bytes: About how many bytes of rows a task gets, as Spark shuffles them.
        dynamic: Whether an overwrite replaces the partitions that the data has rows for.
        where: Which rows an overwrite replaces.
        case_sensitive: Whether case matters in `where` and in names of columns.
        isolation: ``serializable`` or ``snapshot``.
        validate_from: The snapshot since which others must not have changed what an overwrite replaces.
        compression: By the last word of its property: ``codec``, ``level``, ``strategy``.
        merge_schema: Whether the table gets columns and wider types that the data has.
        check_nullability: Whether a column that may be null is refused for a required one, whatever its values.
        check_ordering: Whether columns have to be in the order of the table.
        spec_id: The partition spec to write by.
        sort_order_id: The sort order to write by.
        idempotency_key: As in `WriteJob`.
        upsert: Whether rows of a stream replace those that have their keys.
        join_columns: The columns that are the key; the identifier fields of the table's schema if there are none.
        snapshot_properties: For the summary of the snapshot.
        properties: For this write, on top of the table's own.
    """

    file_format: str | None = None
    target_file_bytes: int | None = None
    branch: str | None = None
    distribution: str | None = None
    fanout: bool | None = None
    advisory_bytes: int | None = None
    dynamic: bool = False
    where: Any = None
    case_sensitive: bool | None = None
    isolation: str | None = None
    validate_from: int | None = None
    compression: Mapping[str, str] = field(default_factory=dict)
    merge_schema: bool = False
    check_nullability: bool = False
    check_ordering: bool = False
    spec_id: int | None = None
    sort_order_id: int | None = None
    idempotency_key: str | None = None
    upsert: bool = False
    join_columns: tuple[str, ...] = ()
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


def parse_write_options(options: Mapping[str, Any]) -> WriteOptions:
    """Read options, however they are spelt: ``write-format``, ``write_format`` or ``writeFormat``. None is nothing.

    Raises:
        ConfigurationError: An option is unknown, is said twice, or has a value that cannot be used.
        UnsupportedError: It asks for what Iceberg's own writer can do and this one cannot.
    """
    given = NamedOptions(options, _NAMES, _PREFIXES, _unknown)
    distribution = given.one_of("distribution-mode", _DISTRIBUTIONS)
    if given.truth("use-table-distribution-and-ordering") is False and distribution is None:
        distribution = "none"
    compression = {
        word: text for word in ("codec", "level", "strategy") if (text := given.text(f"compression-{word}")) is not None
    }
    return WriteOptions(
        file_format=given.text("write-format"),
        target_file_bytes=given.number("target-file-size-bytes", 1),
        branch=given.text("branch"),
        distribution=distribution,
        fanout=given.truth("fanout-enabled"),
        advisory_bytes=given.number("advisory-partition-size", 1),
        dynamic=given.one_of("overwrite-mode", ("static", "dynamic")) == "dynamic",
        where=given.text("filter"),
        case_sensitive=given.truth("case-sensitive"),
        isolation=given.one_of("isolation-level", ("serializable", "snapshot")),
        validate_from=given.number("validate-from-snapshot-id"),
        compression=compression,
        merge_schema=bool(given.truth("merge-schema")),
        check_nullability=bool(given.truth("check-nullability")),
        check_ordering=bool(given.truth("check-ordering")),
        spec_id=given.number("output-spec-id", 0),
        sort_order_id=given.number("output-sort-order-id", 0),
        idempotency_key=given.text("idempotency-key"),
        upsert=bool(given.truth("upsert-enabled")),
        join_columns=tuple(name.strip() for name in (given.text("join-columns") or "").split(",") if name.strip()),
        snapshot_properties=given.below(SNAPSHOT_PREFIX),
        properties={PROPERTY_PREFIX + name: value for name, value in given.below(PROPERTY_PREFIX).items()},
    )


def refuse_stream_options(options: WriteOptions) -> None:
    """Raise `ConfigurationError` for options that a write which is done once has no use for."""
    for name, given in (("upsert-enabled", options.upsert), ("join-columns", options.join_columns)):
        if given:
            message = (
                f"the option {name} is for streams (df.writeStream); use formatkit.spark.write(df, table, 'upsert')"
            )
            raise ConfigurationError(message)


def _unknown(name: str) -> Exception:
    reason = next((why for refused, why in _REFUSED.items() if plain_name(refused) == plain_name(name)), None)
    if reason is not None:
        return UnsupportedError(f"the option {name} is not to be had: {reason}; leave it out")
    hint = nearest_name(name, _NAMES)
    others = f"{SNAPSHOT_PREFIX}*, {PROPERTY_PREFIX}*, {CATALOG_PREFIX}*"
    return ConfigurationError(f"a write has no option {name}{hint}; it has: {', '.join(_NAMES)}, {others}")
