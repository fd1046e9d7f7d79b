"""Iceberg's `write.parquet.*` table properties, checked and translated for the encoder."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow.parquet as pq
from pyiceberg.types import BooleanType

from formatkit.contract.variant import VariantType
from formatkit.errors import ConfigurationError
from formatkit.formats.parquet.write_schema import Leaf

__all__ = ["BloomFilter", "ParquetProperties"]

T = TypeVar("T")

_PREFIX = "write.parquet."
_CODECS = {
    "zstd": "ZSTD",
    "gzip": "GZIP",
    "snappy": "SNAPPY",
    "lz4": "LZ4",
    "lz4_raw": "LZ4",
    "brotli": "BROTLI",
    "uncompressed": "NONE",
}
_LEVELS = {"zstd": range(1, 23), "gzip": range(1, 10), "brotli": range(12)}
"""The other codecs have no level; as in Java, one that is set for them is ignored."""

_PAGE_VERSIONS = {"v1": "1.0", "v2": "2.0"}
_BLOOM_HASHES = 8
_ENCODER_PARAMETERS = inspect.signature(pq.ParquetWriter).parameters


@dataclass(frozen=True, kw_only=True)
class BloomFilter:
    """What was asked for one column. Without `distinct`, every row may hold another value."""

    false_positives: float
    distinct: int | None
    max_bytes: int

    def options(self, rows: int) -> dict[str, Any]:
        """The encoder's options for row groups of about `rows` rows."""
        # The size is a power of two, so the most values that fit follow from the largest one within the limit.
        bits = 8 * 2 ** int(math.log2(self.max_bytes))
        fitting = int(-bits / _BLOOM_HASHES * math.log(1 - self.false_positives ** (1 / _BLOOM_HASHES)))
        return {"ndv": max(1, min(self.distinct or rows, fitting)), "fpp": self.false_positives}


@dataclass(frozen=True, kw_only=True)
class ParquetProperties:
    """The properties of one file, with Iceberg's defaults.

    Row groups close at `row_group_bytes` on disk or `row_group_rows` rows, whichever comes first, but the size is only
    looked at every `row_group_check_rows` rows.
    """

    codec: str
    level: int | None
    row_group_bytes: int
    row_group_rows: int
    row_group_check_rows: int
    page_bytes: int
    page_rows: int
    page_version: str
    dictionary_bytes: int
    dictionary: bool | Sequence[str]
    statistics: bool | Sequence[str]
    bloom_filters: Mapping[str, BloomFilter]

    @classmethod
    def parse(cls, properties: Mapping[str, str], leaves: Sequence[Leaf]) -> ParquetProperties:
        """Read what is set. Unknown properties, and settings of columns that are not there, are ignored."""
        settings = _Settings(properties)
        codec = settings.get("compression-codec", "zstd", _one_of(_CODECS))
        dictionary = settings.get("dict-enabled", settings.raw("parquet.enable.dictionary", True, _boolean), _boolean)
        return cls(
            codec=_CODECS[codec],
            level=settings.get("compression-level", None, _level_of(codec)) if codec in _LEVELS else None,
            row_group_bytes=settings.get("row-group-size-bytes", 128 << 20, _positive),
            row_group_rows=settings.get("row-group-limit", 1 << 20, _positive),
            row_group_check_rows=settings.get("row-group-check-min-record-count", 100, _positive),
            page_bytes=settings.get("page-size-bytes", 1 << 20, _positive),
            page_rows=settings.get("page-row-limit", 20_000, _positive),
            page_version=_PAGE_VERSIONS[settings.get("page-version", "v1", _one_of(_PAGE_VERSIONS))],
            dictionary_bytes=settings.get("dict-size-bytes", 2 << 20, _positive),
            dictionary=settings.columns("dict-enabled", dictionary, leaves),
            statistics=settings.columns("stats-enabled", True, leaves),
            bloom_filters=_bloom_filters(settings, leaves),
        )

    def encoder_options(self, row_group_rows: int) -> dict[str, Any]:
        """Arguments for `pyarrow.parquet.ParquetWriter`; bloom filters are sized for `row_group_rows`."""
        recent = {
            "max_rows_per_page": self.page_rows,
            "bloom_filter_options": {path: wish.options(row_group_rows) for path, wish in self.bloom_filters.items()}
            or None,
        }
        return {
            "compression": self.codec,
            "compression_level": self.level,
            "data_page_size": self.page_bytes,
            "data_page_version": self.page_version,
            "dictionary_pagesize_limit": self.dictionary_bytes,
            "use_dictionary": self.dictionary,
            "write_statistics": self.statistics,
            # Hints that older releases of pyarrow cannot follow.
            **{name: value for name, value in recent.items() if name in _ENCODER_PARAMETERS},
        }


class _Settings:
    """Looks properties up and says which one is wrong."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def raw(self, key: str, default: T, parse: Callable[[str], T]) -> T:
        text = self._properties.get(key)
        if text is None:
            return default
        try:
            return parse(str(text).strip().lower())
        except ValueError as error:
            raise ConfigurationError(f"property {key!r} is {text!r}; it must be {error}", property=key) from error

    def get(self, name: str, default: T, parse: Callable[[str], T]) -> T:
        return self.raw(_PREFIX + name, default, parse)

    def column(self, name: str, leaf: Leaf, default: T, parse: Callable[[str], T]) -> T:
        return self.get(f"{name}.column.{leaf.name}", default, parse)

    def columns(self, name: str, default: bool, leaves: Iterable[Leaf]) -> bool | list[str]:
        """A switch with exceptions by column: one answer if all agree, else the paths for which it is on."""
        answers = {leaf.path: self.column(name, leaf, default, _boolean) for leaf in leaves}
        if len(set(answers.values())) == 1:
            return next(iter(answers.values()))
        return [path for path, enabled in answers.items() if enabled]


def _bloom_filters(settings: _Settings, leaves: Iterable[Leaf]) -> dict[str, BloomFilter]:
    max_bytes = settings.get("bloom-filter-max-bytes", 1 << 20, _at_least(32))
    # Parquet defines no bloom filter for booleans, and nobody looks for the bytes of a variant.
    candidates = [leaf for leaf in leaves if not isinstance(leaf.type, BooleanType | VariantType)]
    return {
        leaf.path: BloomFilter(
            false_positives=settings.column("bloom-filter-fpp", leaf, 0.01, _probability),
            distinct=settings.column("bloom-filter-ndv", leaf, None, _positive),
            max_bytes=max_bytes,
        )
        for leaf in candidates
        if settings.column("bloom-filter-enabled", leaf, False, _boolean)
    }


def _one_of(words: Iterable[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError("one of: " + ", ".join(words))
        return text

    return parse


def _level_of(codec: str) -> Callable[[str], int]:
    levels = _LEVELS[codec]

    def parse(text: str) -> int:
        return _integer(text, levels, f"a whole number from {levels[0]} to {levels[-1]} for {codec}")

    return parse


def _at_least(minimum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        return _integer(text, range(minimum, 2**31), f"a whole number from {minimum} to {2**31 - 1}")

    return parse


_positive = _at_least(1)


def _integer(text: str, allowed: range, description: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError(description) from None
    if number not in allowed:
        raise ValueError(description)
    return number


def _boolean(text: str) -> bool:
    return _one_of(("true", "false"))(text) == "true"


def _probability(text: str) -> float:
    description = "a number above 0 and below 1"
    try:
        number = float(text)
    except ValueError:
        raise ValueError(description) from None
    if not 0 < number < 1:
        raise ValueError(description)
    return number
