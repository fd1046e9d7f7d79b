"""What the kernel needs to do with batches, whatever they are made of.

`DataBatch[B]` is an operations object: the batches themselves stay the plain type `B` (`pa.RecordBatch`, a Polars
frame) through all layers, and nothing is wrapped. Work that depends on schemas only is done once: `filter`, `project`,
`evolve` and `inject` are given the schemas of a file and return a `Step` that is then applied to each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.contract.metrics import MetricsCollector, MetricsMode

__all__ = ["Booleans", "DataBatch", "InjectedColumn", "Longs", "Step"]

B = TypeVar("B")

Step = Callable[[B], B]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Booleans = NDArray[np.bool_]
    Longs = NDArray[np.int64]
else:
    # Listing the installed formats loads the contract, and should not load NumPy.
    Booleans = Longs = Any


@dataclass(frozen=True, kw_only=True)
class InjectedColumn:
    """A column that is computed rather than read.

    Each row gets `value`, or `value` plus the row's value in the long column `plus` (a field id). Where the batch
    already has the column, only its nulls are filled.
    """

    field: NestedField
    value: Any
    plus: int | None = None


class DataBatch(Protocol[B]):
    """The operations on batches of type `B`.

    Values given from outside (constants, defaults, literals) may be Iceberg's internal values or Python's own: 18262
    or ``date(2020, 1, 1)``.

    Clauses
    -------
    B1  A batch is read with a schema, by position at every level. Any physical form of a type is accepted (sliced,
        dictionary, large, view, run-end). `evolve` and `concat` return the one canonical form of the schema; the other
        operations leave the form of what they do not change as it is.
    B2  `filter` follows the Iceberg expressions spec, two-valued: null fails ``=``, ``<``, ``<=``, ``>``, ``>=``,
        ``in``, ``starts with`` and passes ``!=``, ``not in``, ``not starts with``, ``is not NaN``; NaN fails all
        comparisons but ``!=`` and ``not in``; −0.0 equals 0.0; strings order by UTF-8 bytes, uuid, fixed and binary by
        unsigned bytes. A step that keeps all rows returns the same object.
    B3  `project` picks top-level columns by id, in the given order; an id that the schema lacks raises
        `ColumnNotFoundError`. Without columns a batch keeps its number of rows.
    B4  `evolve` turns batches of `source` into batches of `target` by id: reorders, renames, drops, promotes, at every
        level. A field that `source` lacks takes its value from `constants` if its id is there (null included), else its
        initial default, else null if it is optional; else `MissingRequiredFieldError` while compiling. A null parent
        stays null. A promotion outside Iceberg's rules raises `IllegalPromotionError` while compiling; a value that
        does not fit, or a null where only `target` is required, raises `InvalidDataError`. The constant of a struct
        is a tuple. A batch that already is what is asked for is returned as it is.
    B5  `inject` appends the columns, or fills the nulls of those that are there; the other columns are untouched.
    B6  `collector` follows Iceberg's rules for metrics: bounds never NaN, −0.0 below +0.0, truncation of strings by
        code points and of binary by bytes with the upper bound incremented, no bounds inside lists and maps.
    B7  `take_rows`, `slice` and `concat` keep values and their order: the rows that are marked, a window of rows, all
        rows of all batches. `rows` shows them as tuples of Python's own values, internal ones where Python has none.
        Batches without columns have rows too.
    B8  `longs` gives a long column as an array, and `distinct` the values of any flat column, each once and as `rows`
        shows it, with the ordinal of each row's value among them. A null among longs raises `InvalidDataError`.
    B9  `locate` compares rows by all leaves of the schema: null equals null and nothing else, a leaf of a null struct
        is null, NaN equals NaN, −0.0 does not equal 0.0. Each row gets the ordinal of the first of the key rows, all
        batches counted through, that equals it, or −1. The number of keys changes neither depth nor work per row by
        more than a logarithm. Leaves inside lists and maps raise `UnsupportedError` while compiling.
    B10 `mark` appends a boolean column; the other columns are untouched.
    """

    batch_type: type[B]

    def num_rows(self, batch: B) -> int: ...

    def filter(self, schema: Schema, predicate: BooleanExpression) -> Step[B]: ...

    def project(self, schema: Schema, field_ids: Sequence[int]) -> Step[B]: ...

    def evolve(self, source: Schema, target: Schema, constants: Mapping[int, Any]) -> Step[B]: ...

    def inject(self, schema: Schema, columns: Sequence[InjectedColumn]) -> Step[B]: ...

    def longs(self, schema: Schema, field_id: int) -> Callable[[B], Longs]: ...

    def distinct(self, schema: Schema, field_id: int) -> Callable[[B], tuple[Sequence[Any], Longs]]: ...

    def locate(self, schema: Schema, keys: Sequence[B]) -> Callable[[B], Longs]:
        """How to find rows among `keys`, which are of the same schema as the batches."""
        ...

    def mark(self, schema: Schema, field: NestedField) -> Callable[[B, Booleans], B]:
        """How to append the column `field` with a given value for each row."""
        ...

    def take_rows(self, batch: B, keep: Sequence[bool] | Booleans) -> B:
        """The rows for which `keep` is true; any buffer of booleans (a NumPy array) will do."""
        ...

    def slice(self, batch: B, offset: int, length: int) -> B: ...

    def concat(self, schema: Schema, batches: Sequence[B]) -> B:
        """One batch of all rows; an empty batch of the schema if there are none."""
        ...

    def collector(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> MetricsCollector[B]:
        """A collector for one file; leaf ids that `modes` lacks are not collected."""
        ...

    def rows(self, schema: Schema, batch: B) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples of Python values, for checks and for people. Structs are tuples, maps lists of pairs."""
        ...
