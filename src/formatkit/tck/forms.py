"""The physical forms in which the same Arrow columns can come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import pyarrow as pa

__all__ = ["arrow_forms"]


def arrow_forms(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batch in each form, with the form's name; columns that have no such form stay plain."""
    for name, form in _FORMS.items():
        columns = [form(column) for column in batch.columns]
        fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
        yield name, pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _plain(column: Any) -> Any:
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _sliced(column: Any) -> Any:
    return pa.concat_arrays([column.slice(0, 1), column, column]).slice(min(1, len(column)), len(column))


def _dictionary(column: Any) -> Any:
    if pa.types.is_nested(column.type):
        return column
    # Each row has its own entry, so that some are null and some stand there twice; one more is not used at all.
    entries = _plain(pa.concat_arrays([column, column.slice(0, 1)]))
    return pa.DictionaryArray.from_arrays(pa.array(range(len(column)), pa.int32()), entries)


def _run_ends(column: Any) -> Any:
    ends = pa.array(islice(count(1), len(column)), pa.int32())
    return pa.RunEndEncodedArray.from_arrays(ends, _plain(column))


def _cast(**targets: pa.DataType) -> Callable[[Any], Any]:
    """A cast by the name of the type that is stored."""

    def form(column: Any) -> Any:
        stored = _plain(column)
        name = str(stored.type).partition("[")[0].partition("(")[0]
        return stored.cast(targets[name]) if name in targets else column

    return form


def _large_lists(column: Any) -> Any:
    kind = column.type
    return column.cast(pa.large_list(kind.value_field)) if pa.types.is_list(kind) else column


_FORMS: dict[str, Callable[[Any], Any]] = {
    "sliced": _sliced,
    "dictionary": _dictionary,
    "large": _cast(string=pa.large_string(), binary=pa.large_binary()),
    "view": _cast(string=pa.string_view(), binary=pa.binary_view()),
    "large lists": _large_lists,
    "variable length": _cast(fixed_size_binary=pa.binary()),
    "wide integers": _cast(int32=pa.int64()),
    "run ends": _run_ends,
}
