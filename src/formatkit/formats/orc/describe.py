"""Facts about an ORC file for a person who inspects it."""

from __future__ import annotations

from typing import Any

from formatkit.formats.orc.tail import Tail

__all__ = ["describe"]

_WRITERS = ("ORC Java", "ORC C++", "Presto", "Scritchley Go", "Trino", "CUDF")


def describe(tail: Tail) -> dict[str, Any]:
    """What the tail says beyond the schema, in JSON values."""
    stripes, postscript = tail.stripes, tail.postscript
    writer = _WRITERS[tail.writer] if tail.writer < len(_WRITERS) else f"writer {tail.writer}"
    return {
        "rows": tail.rows,
        "stripes": len(stripes),
        "rows_per_stripe": [stripe.rows for stripe in stripes],
        "types": len(tail.types),
        "created_by": f"{writer} {tail.software}".strip(),
        "writer_version": postscript.writer_version,
        "codec": postscript.codec.name,
        "compression_block_bytes": postscript.block_bytes,
        "row_index_stride": tail.row_index_stride,
        "index_bytes": sum(stripe.index_bytes for stripe in stripes),
        "data_bytes": sum(stripe.data_bytes for stripe in stripes),
        "statistics_bytes": postscript.statistics_bytes,
        "footer_bytes": postscript.footer_bytes,
    }
