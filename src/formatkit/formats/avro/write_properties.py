"""Iceberg's `write.avro.*` table properties, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from formatkit.errors import ConfigurationError

__all__ = ["AvroProperties"]

_CODEC = "write.avro.compression-codec"
_LEVEL = "write.avro.compression-level"
_BLOCK_BYTES = "write.avro.block-size-bytes"

_CODECS = {
    "gzip": "deflate",
    "deflate": "deflate",
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "bzip2": "bzip2",
    "xz": "xz",
    "uncompressed": "null",
    "null": "null",
}
"""Iceberg's names and Avro's own, each with the name that the file stores."""

_LEVELS = {"deflate": range(10), "zstandard": range(1, 23), "bzip2": range(1, 10), "xz": range(10)}
"""The other codecs have no level; as in Java, one that is set for them is ignored."""

_DEFAULT_BLOCK_BYTES = 256 << 10
_BLOCK_RANGE = range(1, (64 << 20) + 1)


@dataclass(frozen=True, kw_only=True)
class AvroProperties:
    """The properties of one file, with Iceberg's defaults.

    Attributes:
        codec: As the file spells it.
        level: In the codec's scale, or None for its default.
        block_bytes: How long a block must be before it is compressed and stored. Iceberg has no such property; this
            one is `write.avro.block-size-bytes`.
    """

    codec: str
    level: int | None
    block_bytes: int

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> AvroProperties:
        """Read what is set. Unknown properties are ignored.

        Raises:
            ConfigurationError: A property has a value that cannot be used.
        """
        word = str(properties.get(_CODEC, "gzip")).strip().lower()
        if word not in _CODECS:
            raise _wrong(properties, _CODEC, "one of: " + ", ".join(_CODECS))
        codec = _CODECS[word]
        level = _number(properties, _LEVEL, _LEVELS[codec], f" for {word}") if codec in _LEVELS else None
        block_bytes = _number(properties, _BLOCK_BYTES, _BLOCK_RANGE)
        return cls(codec=codec, level=level, block_bytes=block_bytes or _DEFAULT_BLOCK_BYTES)


def _number(properties: Mapping[str, str], key: str, allowed: range, condition: str = "") -> int | None:
    if (text := properties.get(key)) is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = allowed.start - 1
    if number not in allowed:
        raise _wrong(properties, key, f"a whole number from {allowed[0]} to {allowed[-1]}{condition}")
    return number


def _wrong(properties: Mapping[str, str], key: str, description: str) -> ConfigurationError:
    return ConfigurationError(f"property {key!r} is {properties[key]!r}; it must be {description}", property=key)
