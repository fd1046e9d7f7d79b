"""Facts about a Parquet file for a person who inspects it."""

from __future__ import annotations

from typing import Any

from formatkit.formats.parquet.failures import corrupt
from formatkit.formats.parquet.footer import Footer
from formatkit.formats.parquet.thrift import ThriftError, decode_struct

__all__ = ["describe"]

_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_ENCODINGS = (
    "PLAIN",
    "GROUP_VAR_INT",
    "PLAIN_DICTIONARY",
    "RLE",
    "BIT_PACKED",
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
    "RLE_DICTIONARY",
    "BYTE_STREAM_SPLIT",
)


def describe(footer: Footer) -> dict[str, Any]:
    """What the footer says beyond the schema, in JSON values."""
    try:
        return _facts(footer, decode_struct(footer.data)[0])
    except (ThriftError, AttributeError, IndexError, KeyError, TypeError) as error:
        raise corrupt(footer.location, f"its footer cannot be decoded: {error!r}") from error


def _facts(footer: Footer, stored: dict[int, Any]) -> dict[str, Any]:
    row_groups = stored[4]
    records = [record for row_group in row_groups for record in row_group[1]]
    # The record of an encrypted chunk may be encrypted too.
    chunks = [record[3] for record in records if 3 in record]
    return {
        "rows": footer.row_count,
        "row_groups": len(row_groups),
        "rows_per_row_group": [row_group[3] for row_group in row_groups],
        "leaf_columns": footer.metadata.num_columns,
        "created_by": _text(stored.get(6, b"")),
        "format_version": stored[1],
        "codecs": sorted({_CODECS[chunk[4]] for chunk in chunks}),
        "encodings": sorted({_ENCODINGS[encoding] for chunk in chunks for encoding in chunk[2]}),
        "compressed_bytes": sum(chunk[7] for chunk in chunks),
        "uncompressed_bytes": sum(chunk[6] for chunk in chunks),
        "footer_bytes": len(footer.data),
        "page_index": any(6 in record for record in records),
        "bloom_filters": sorted({".".join(map(_text, chunk[3])) for chunk in chunks if 14 in chunk}),
        "encrypted": footer.decryption is not None,
    }


def _text(stored: bytes) -> str:
    return stored.decode(errors="replace")
