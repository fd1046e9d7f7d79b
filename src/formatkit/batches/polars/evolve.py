"""Batches of one schema turned into batches of another, by expressions that are built once for a layout of batches.

All of it is left to Polars, lists included, whose elements it converts all at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import polars as pl
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DateType, ListType, MapType, StringType, StructType, UnknownType

from formatkit.batches.polars.constants import constant
from formatkit.batches.polars.conversions import Absent, Slot, Stored, slots_of
from formatkit.batches.polars.forms import Check, Place, as_flat, as_list, instance, midnights, no_form_of, require
from formatkit.batches.polars.layouts import PerLayout
from formatkit.batches.polars.types import polars_schema
from formatkit.contract.batch import Step
from formatkit.contract.variant import VariantType
from formatkit.errors import ContractViolationError, InvalidDataError

__all__ = ["compile_evolution"]


def compile_evolution(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Step[pl.DataFrame]:
    """A function that turns batches of `source` into canonical batches of `target` (clause B4)."""
    slots = slots_of(source.fields, target.fields, constants)
    canonical = polars_schema(target)
    width = len(source.fields)
    layouts = PerLayout(lambda found: _Evolution(slots, found, canonical))

    def evolve(batch: pl.DataFrame) -> pl.DataFrame:
        if batch.width != width:
            raise ContractViolationError("B1", f"a batch has {batch.width} columns, its schema has {width}")
        return layouts.of(batch)(batch)

    return evolve


class _Evolution:
    """The expressions for batches of one layout, `found`."""

    def __init__(self, slots: Sequence[Slot], found: pl.Schema, canonical: pl.Schema) -> None:
        self._names = list(canonical)
        self._checks: list[Check] = []
        self._texts: dict[str, pl.Expr] = {}
        self._stored: list[pl.Expr] = []
        self._absent: list[pl.Expr] = []
        dtypes = found.dtypes()
        unchanged = list(found) == self._names
        for number, (slot, (name, wanted)) in enumerate(zip(slots, canonical.items(), strict=True)):
            if isinstance(slot, Absent):
                self._absent.append(slot.value.alias(name))
                continue
            place = Place.top(slot.position, slot.name, dtypes[slot.position])
            value = self._filled(slot, place, wanted)
            self._stored.append(value.alias(name))
            unchanged = unchanged and slot.position == number and value is place.value
        self._unchanged = unchanged and not self._absent and not self._checks

    def __call__(self, batch: pl.DataFrame) -> pl.DataFrame:
        if self._unchanged:
            return batch
        require(batch, self._checks)
        try:
            columns = batch.select(self._stored) if self._stored else pl.DataFrame(height=batch.height)
        except pl.exceptions.ComputeError as error:
            raise self._explained(batch, error) from error
        if self._absent:
            columns = columns.with_columns(self._absent)
        return columns if columns.columns == self._names else columns.select(self._names)

    def _filled(self, slot: Stored, place: Place, wanted: pl.DataType, parent: Place | None = None) -> pl.Expr:
        """The values of a slot; the very expression of the place if they need no conversion."""
        if slot.refuses_null:
            nulls = place.flat.is_null() if parent is None else place.flat.is_null() & parent.flat.is_not_null()
            message = f"column {place.name!r} is required, but {{}} of its values are null"
            self._checks.append(Check(nulls.sum(), message.format))
        match slot.source, slot.target:
            case (UnknownType(), _) | (_, UnknownType()):
                return place.value if place.dtype == wanted else _nulls(place, wanted)
            case StructType(), VariantType():
                return self._variant_of_parts(place, wanted)
            case StructType(), _:
                return self._struct(slot, place, wanted)
            case ListType(), _ if not isinstance(place.dtype, pl.Map):
                return self._list(slot, place, wanted)
            case MapType(), _:
                return self._map(slot, place, wanted)
            case VariantType(), _:
                return _variant(place, wanted)
            case BinaryType(), StringType() if isinstance(place.dtype, pl.Binary):
                self._texts[place.name] = place.flat.cast(pl.String)
                return place.value.cast(pl.String)
        if isinstance(slot.source, DateType) and isinstance(wanted, pl.Datetime):
            value, checks = midnights(place, wanted)
        else:
            value, checks = as_flat(place, wanted)
        self._checks += checks
        return value

    def _variant_of_parts(self, place: Place, wanted: pl.DataType) -> pl.Expr:
        """Variants that are stored as a plain struct, whose parts may be null."""
        for position, part in enumerate(cast("pl.Struct", place.dtype).fields):
            nulls = place.child(position, part.name).flat.is_null() & place.flat.is_not_null()
            message = f"column {place.name!r} holds {{}} variants without {part.name}"
            self._checks.append(Check(nulls.sum(), message.format))
        return _variant(place, wanted)

    def _struct(self, slot: Stored, place: Place, wanted: pl.DataType) -> pl.Expr:
        width = len(slot.source.fields) if isinstance(slot.source, StructType) else 2
        if not isinstance(place.dtype, pl.Struct) or len(place.dtype.fields) != width:
            raise no_form_of(place, wanted)
        children: list[pl.Expr] = []
        in_place = len(slot.slots) == width
        for number, (below, field) in enumerate(zip(slot.slots, cast("pl.Struct", wanted).fields, strict=True)):
            if isinstance(below, Absent):
                value, in_place = below.value, False
            else:
                child = place.child(below.position, below.name)
                value = self._filled(below, child, instance(field.dtype), place)
                in_place = in_place and below.position == number and value is child.value
            children.append(value.alias(field.name))
        if not in_place:
            whole = pl.struct(children) if children else constant(StructType(), ())
            # What was null stays null.
            return pl.when(place.value.is_not_null()).then(whole)
        if place.dtype == wanted:
            return place.value
        return place.value.struct.rename_fields([field.name for field in cast("pl.Struct", wanted).fields])

    def _list(self, slot: Stored, place: Place, wanted: pl.DataType) -> pl.Expr:
        lists = as_list(place, wanted)
        below = slot.slots[0]
        assert isinstance(below, Stored)  # noqa: S101
        element = lists.element(below.name)
        return _with_elements(lists, element, self._filled(below, element, instance(cast("pl.List", wanted).inner)))

    def _map(self, slot: Stored, place: Place, wanted: pl.DataType) -> pl.Expr:
        lists = as_list(place, wanted)
        entry = lists.element(place.name)
        return _with_elements(lists, entry, self._struct(slot, entry, instance(cast("pl.List", wanted).inner)))

    def _explained(self, batch: pl.DataFrame, error: Exception) -> InvalidDataError:
        for name, text in self._texts.items():
            try:
                batch.select(text)
            except pl.exceptions.ComputeError:
                return InvalidDataError(f"column {name!r} is stored as binary and holds a value that is not UTF-8 text")
        return InvalidDataError(f"a batch cannot be converted: {error}")


def _with_elements(lists: Place, element: Place, values: pl.Expr) -> pl.Expr:
    return lists.value if values is element.value else lists.value.list.eval(values)


def _variant(place: Place, wanted: pl.DataType) -> pl.Expr:
    """The two parts of variants, which are found by name because they are not fields of any schema."""
    if place.dtype == wanted:
        return place.value
    parts = dict(cast("pl.Struct", wanted).to_schema())
    if not isinstance(place.dtype, pl.Struct) or dict(place.dtype.to_schema()) != parts:
        raise no_form_of(place, wanted)
    return pl.when(place.value.is_not_null()).then(pl.struct([place.value.struct.field(name) for name in parts]))


def _nulls(place: Place, wanted: pl.DataType) -> pl.Expr:
    # As many as there are rows, which a literal by itself does not know.
    return pl.when(place.value.is_null() & place.value.is_not_null()).then(pl.lit(None, wanted))
