"""Iceberg's `write.orc.*` table properties, and those of ORC itself, checked and translated for the encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from formatkit.errors import ConfigurationError
from formatkit.formats.orc.compression import Codec
from formatkit.formats.orc.write_schema import StoredColumn

__all__ = ["OrcProperties"]

T = TypeVar("T")

_CODECS = {
    "zlib": Codec.ZLIB,
    "zstd": Codec.ZSTD,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "none": Codec.NONE,
    "uncompressed": Codec.NONE,
}
_STRATEGIES = ("speed", "compression")
_BLOCK_UNIT = 64 << 10
_MAX_BLOCK = (1 << 23) - _BLOCK_UNIT


@dataclass(frozen=True, kw_only=True)
class OrcProperties:
    """The properties of one file, with Iceberg's defaults."""

    codec: Codec
    strategy: str
    stripe_bytes: int
    block_bytes: int
    batch_rows: int
    row_index_stride: int
    dictionary_threshold: float
    bloom_filter_types: Sequence[int]
    bloom_filter_fpp: float

    @classmethod
    def parse(cls, properties: Mapping[str, str], leaves: Sequence[StoredColumn]) -> OrcProperties:
        """Read what is set. Unknown properties, and bloom filters for columns that are not there, are ignored."""
        settings = _Settings(properties)
        chosen: frozenset[str] = settings.get("write.orc.bloom.filter.columns", frozenset(), _names)
        return cls(
            codec=_CODECS[settings.get("write.orc.compression-codec", "zlib", _one_of(_CODECS))],
            strategy=settings.get("write.orc.compression-strategy", "speed", _one_of(_STRATEGIES)),
            stripe_bytes=settings.get("write.orc.stripe-size-bytes", 64 << 20, _integer(1, 2**63 - 1)),
            block_bytes=settings.get("orc.compress.size", 256 << 10, _block_size),
            batch_rows=settings.get("write.orc.vectorized.batch-size", 1024, _integer(1, 2**31 - 1)),
            row_index_stride=settings.get("orc.row.index.stride", 10_000, _integer(1, 2**31 - 1)),
            dictionary_threshold=settings.get("orc.dictionary.key.threshold", 0.8, _fraction),
            bloom_filter_types=[leaf.type_ids[0] for leaf in leaves if leaf.name.lower() in chosen],
            bloom_filter_fpp=settings.get("write.orc.bloom.filter.fpp", 0.05, _probability),
        )

    def encoder_options(self, bloom_filter_types: Sequence[int]) -> dict[str, Any]:
        """Arguments for `pyarrow.orc.ORCWriter`, whose types may have other numbers than the file's."""
        return {
            "compression": "uncompressed" if self.codec is Codec.NONE else self.codec.name.lower(),
            "compression_strategy": self.strategy,
            "compression_block_size": self.block_bytes,
            "stripe_size": self.stripe_bytes,
            "batch_size": self.batch_rows,
            "row_index_stride": self.row_index_stride,
            "dictionary_key_size_threshold": self.dictionary_threshold,
            "bloom_filter_columns": list(bloom_filter_types) or None,
            "bloom_filter_fpp": self.bloom_filter_fpp,
        }


class _Settings:
    """Looks properties up and says which one is wrong."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def get(self, key: str, default: T, parse: Callable[[str], T]) -> T:
        text = self._properties.get(key)
        if text is None:
            return default
        try:
            return parse(str(text).strip().lower())
        except ValueError as error:
            raise ConfigurationError(f"property {key!r} is {text!r}; it must be {error}", property=key) from error


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _one_of(words: Iterable[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError("one of: " + ", ".join(words))
        return text

    return parse


def _integer(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)

    return parse


def _block_size(text: str) -> int:
    try:
        size = _integer(_BLOCK_UNIT, _MAX_BLOCK)(text)
    except ValueError:
        size = 1
    if size % _BLOCK_UNIT:
        raise ValueError(f"a multiple of {_BLOCK_UNIT} up to {_MAX_BLOCK}")
    return size


def _fraction(text: str) -> float:
    number = _number(text)
    if not 0 <= number <= 1:
        raise ValueError("a number from 0 to 1")
    return number


def _probability(text: str) -> float:
    number = _number(text)
    if not 0 < number < 1:
        raise ValueError("a number above 0 and below 1")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number") from None
