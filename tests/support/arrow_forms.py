"""The physical forms in which one and the same flat Arrow column can come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["FORMS"]


def _storage(column: Any) -> Any:
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _sliced(column: Any) -> Any:
    return pa.concat_arrays([column.slice(0, 1), column, column]).slice(1, len(column))


def _dictionary_with_null_and_repeated_values(column: Any) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(np.arange(len(column)), pa.uint16()), _storage(column))


def _dictionary(column: Any) -> Any:
    return _storage(column).dictionary_encode()


def _dictionary_with_unused_values(column: Any) -> Any:
    encoded = _dictionary(column)
    unused = encoded.dictionary.take(pa.array([0] * 3))
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.concat_arrays([encoded.dictionary, unused]))


def _run_ends(column: Any) -> Any:
    return pa.RunEndEncodedArray.from_arrays(pa.array(np.arange(1, len(column) + 1), pa.int32()), column)


def _sliced_run_ends(column: Any) -> Any:
    values = pa.concat_arrays([column.slice(0, 1), column])
    ends = pa.array(np.arange(3, len(column) + 4), pa.int64())
    return pa.RunEndEncodedArray.from_arrays(ends, values).slice(3, len(column))


def _extension(column: Any) -> Any:
    return pa.ExtensionArray.from_storage(pa.opaque(_storage(column).type, "form", "tests"), _storage(column))


def _cast(**targets: Any) -> Callable[[Any], Any]:
    """A cast by the name of the storage type; None where there is no such form."""

    def form(column: Any) -> Any:
        storage = _storage(column)
        name = str(storage.type).partition("[")[0].partition("(")[0]
        return storage.cast(targets[name]) if name in targets else None

    return form


def _other_zone(column: Any) -> Any:
    zoned = pa.types.is_timestamp(column.type) and column.type.tz is not None
    return column.cast(pa.timestamp(column.type.unit, "Asia/Kolkata")) if zoned else None


def _wide_decimal(column: Any) -> Any:
    return column.cast(pa.decimal256(60, column.type.scale)) if pa.types.is_decimal(column.type) else None


FORMS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda column: column,
    "sliced": _sliced,
    "storage of the extension": _storage,
    "dictionary": _dictionary,
    "dictionary with null and repeated values": _dictionary_with_null_and_repeated_values,
    "dictionary with unused values": _dictionary_with_unused_values,
    "run ends": _run_ends,
    "sliced run ends": _sliced_run_ends,
    "extension": _extension,
    "large": _cast(string=pa.large_string(), binary=pa.large_binary()),
    "view": _cast(string=pa.string_view(), binary=pa.binary_view()),
    "variable length": _cast(fixed_size_binary=pa.binary()),
    "wide integers": _cast(int32=pa.int64()),
    "other zone": _other_zone,
    "wide decimal": _wide_decimal,
}
"""By name: a function that gives the column in that form, or None where its type has no such form."""
