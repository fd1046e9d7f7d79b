"""Facts about a Parquet file for a person who inspects it."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq

from formatkit.formats.parquet.footer import Footer

__all__ = ["describe"]


def describe(footer: Footer) -> dict[str, Any]:
    """What the footer says beyond the schema, in JSON values."""
    metadata = footer.metadata
    row_groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    chunks = [row_group.column(leaf) for row_group in row_groups for leaf in range(row_group.num_columns)]
    return {
        "rows": metadata.num_rows,
        "row_groups": len(row_groups),
        "rows_per_row_group": [row_group.num_rows for row_group in row_groups],
        "leaf_columns": metadata.num_columns,
        "created_by": metadata.created_by,
        "format_version": metadata.format_version,
        "codecs": sorted({chunk.compression for chunk in chunks}),
        "encodings": sorted({encoding for chunk in chunks for encoding in chunk.encodings}),
        "compressed_bytes": sum(chunk.total_compressed_size for chunk in chunks),
        "uncompressed_bytes": sum(chunk.total_uncompressed_size for chunk in chunks),
        "footer_bytes": metadata.serialized_size,
        "page_index": any(chunk.has_column_index for chunk in chunks),
        "bloom_filters": sorted({chunk.path_in_schema for chunk in chunks if _has_bloom_filter(chunk)}),
        "encrypted": footer.decryption is not None,
    }


def _has_bloom_filter(chunk: pq.ColumnChunkMetaData) -> bool:
    return getattr(chunk, "bloom_filter_offset", None) is not None
