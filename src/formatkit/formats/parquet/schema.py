"""The Parquet schema of a file as an Iceberg schema, decided by structure: names of repeated groups mean nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType, UnknownType

from formatkit.contract.variant import VariantType
from formatkit.errors import CorruptFileError, UnsupportedError
from formatkit.formats.parquet.elements import Element, Kind, Physical, Repetition
from formatkit.formats.parquet.stored_schema import Shown
from formatkit.formats.parquet.types import as_read, is_usual_decimal, primitive_type, spelled
from formatkit.formats.parquet.variant_layout import layout_problem

__all__ = ["MAX_LEVELS", "Column", "FileSchema", "file_schema"]

MAX_LEVELS = 99
"""How many levels of elements a file may have below the root, two for each list and map: no more are read by Arrow."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One field of the file at any level, and where its values are.

    Attributes:
        field: The field as the file's Iceberg schema shows it.
        stored_name: The name of the field in the file, which others may have as well.
        leaves: The leaf columns below it, by index; a single one for a primitive, unless it is a variant.
        children: The fields of a struct, the element of a list, the key and the value of a map.
        element: How a primitive is stored, without annotations that change nothing; None for nested types and variants.
        repeated: Whether a row may hold several values, so that statistics say nothing about rows.
        reason: Why the values cannot be read, if they cannot.
    """

    field: NestedField
    stored_name: str
    leaves: range
    children: tuple[Column, ...] = ()
    element: Element | None = None
    repeated: bool = False
    reason: str | None = None

    def walk(self) -> Iterator[Column]:
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, kw_only=True)
class FileSchema:
    """The columns of a file: as trees that know the leaves, and as a schema.

    Attributes:
        columns: The top-level columns.
        schema: The same as Iceberg's schema.
        unreadable: Why a column cannot be read, by its id.
        shown: What pyarrow is shown in place of some elements, by their place in the footer.
    """

    columns: tuple[Column, ...]
    schema: Schema
    unreadable: Mapping[int, str]
    shown: Mapping[int, Shown]


def file_schema(elements: Sequence[Element], location: str) -> FileSchema:
    """Turn the flattened tree that a footer stores into columns."""
    _check_levels(elements, location)
    try:
        translation = _Translation(_without_repeated_ids(elements))
        columns = translation.columns()
    except IndexError:
        msg = f"{location}: the schema in the footer ends before all its groups are complete"
        raise CorruptFileError(msg, location=location) from None
    nodes = [node for column in columns for node in column.walk()]
    try:
        schema = Schema(*(column.field for column in columns))
    except ValueError as error:
        msg = f"{location}: a column has the name of a list's element or a map's key or value: {error}"
        raise UnsupportedError(msg, location=location) from None
    return FileSchema(
        columns=columns,
        schema=schema,
        unreadable={node.field.field_id: node.reason for node in nodes if node.reason is not None},
        shown=translation.shown,
    )


def _without_repeated_ids(elements: Sequence[Element]) -> Sequence[Element]:
    """The elements without any id if one of them is stored twice, since nobody knows then what the ids mean."""
    ids = [element.field_id for element in elements[1:] if element.field_id is not None]
    if len(ids) == len(set(ids)):
        return elements
    return [replace(element, field_id=None) for element in elements]


def _check_levels(elements: Sequence[Element], location: str) -> None:
    """Refuse a tree of more levels than Arrow reads, before anything follows it by recursion."""
    open_groups: list[int] = []
    for element in elements:
        while open_groups and not open_groups[-1]:
            open_groups.pop()
        if open_groups:
            open_groups[-1] -= 1
        if len(open_groups) > MAX_LEVELS:
            msg = f"{location}: the schema has more than the {MAX_LEVELS} levels that are read of Parquet files"
            raise UnsupportedError(msg, location=location)
        open_groups.append(element.children)


_Content = tuple[IcebergType, tuple[Column, ...]]


class _NotIcebergError(Exception):
    """The node has no place in an Iceberg schema."""


class _OtherShapeError(Exception):
    """A group has not the shape of what it is annotated as."""


class _Place(NamedTuple):
    """How far the elements were read, and what was given to them."""

    next: int
    leaf: int
    without_id: int
    names: int


class _Translation:
    """One pass over the elements, which stand in depth-first order."""

    def __init__(self, elements: Sequence[Element]) -> None:
        self._elements = elements
        self._next = 0
        self._leaf = 0
        self._without_id = 0
        self._path: tuple[str, ...] = ()
        self._names: dict[str, None] = {}
        self.shown: dict[int, Shown] = {}

    def columns(self) -> tuple[Column, ...]:
        return self._fields(self._take(), repeated=False)

    def _take(self) -> Element:
        self._next += 1
        return self._elements[self._next - 1]

    def _skip(self, element: Element) -> None:
        self._leaf += element.physical is not None
        for _ in range(element.children):
            self._skip(self._take())

    def _fields(self, group: Element, *, repeated: bool) -> tuple[Column, ...]:
        columns = []
        for _ in range(group.children):
            element = self._take()
            if (name := self._free_name(element.name)) == element.name:
                columns.append(self._field(element, repeated=repeated))
            else:
                column = self._field(replace(element, name=name), repeated=repeated)
                columns.append(replace(column, stored_name=element.name))
        return tuple(columns)

    def _free_name(self, name: str) -> str:
        """The name, with a number if another column has it: a schema cannot hold a name twice, dots included."""
        free = name
        for number in count(2):
            if ".".join((*self._path, free)) not in self._names:
                break
            free = f"{name}#{number}"
        return free

    def _field(self, element: Element, *, repeated: bool) -> Column:
        """The column of the element taken last; repeated without an annotation, it is a list of required elements."""
        if element.repetition is not Repetition.REPEATED:
            return self._node(element, repeated=repeated)
        inner = replace(element, name="element", field_id=None, repetition=Repetition.REQUIRED)
        return self._guarded(element, lambda: self._list_of(self._node(inner, repeated=True)), repeated)

    def _node(self, element: Element, *, repeated: bool) -> Column:
        return self._guarded(element, lambda: self._content(element, repeated), repeated)

    def _guarded(self, element: Element, content: Callable[[], _Content], repeated: bool) -> Column:
        """A column of the content, or one of type unknown that says why there is none."""
        start, reason = self._place(), None
        leaf, path = self._leaf, self._path
        self._path = (*path, element.name)
        self._names[".".join(self._path)] = None
        try:
            kind, children = content()
        except _NotIcebergError as error:
            self._return_to(start)
            self._skip(element)
            self.shown |= dict.fromkeys(range(start.next - 1, self._next), Shown.PLAIN)
            kind, children, reason = UnknownType(), (), str(error)
        self._path = path
        if element.field_id is None:
            self._without_id -= 1
        is_leaf = element.physical is not None
        plain = as_read(element) if is_leaf else element
        ignored = is_leaf and plain is not element and element.kind is not Kind.INTEGER
        return Column(
            field=NestedField(
                self._without_id if element.field_id is None else element.field_id,
                element.name,
                kind,
                required=element.repetition is not Repetition.OPTIONAL and not isinstance(kind, UnknownType),
                doc=f"stored as {spelled(element)}" if ignored else None,
            ),
            stored_name=element.name,
            leaves=range(leaf, self._leaf),
            children=children,
            element=plain if is_leaf else None,
            repeated=repeated,
            reason=reason,
        )

    def _place(self) -> _Place:
        return _Place(self._next, self._leaf, self._without_id, len(self._names))

    def _return_to(self, place: _Place) -> None:
        """Forget what was read since then."""
        self._next, self._leaf, self._without_id = place.next, place.leaf, place.without_id
        for name in list(self._names)[place.names :]:
            del self._names[name]
        self.shown = {number: how for number, how in self.shown.items() if number < place.next}

    def _content(self, element: Element, repeated: bool) -> _Content:
        if element.physical is not None:
            return self._leaf_content(element)
        start = self._place()
        if element.has_odd_logical_type:
            self.shown[start.next - 1] = Shown.CONVERTED
        try:
            if content := self._annotated_content(element):
                return content
        except _OtherShapeError:
            self._return_to(start)
        if element.kind is not None:
            self.shown[start.next - 1] = Shown.PLAIN
        return self._struct(element, repeated)

    def _annotated_content(self, element: Element) -> _Content | None:
        """A group as what it is annotated; None if it is to be read as a plain group."""
        match element.kind:
            case Kind.LIST:
                return self._list_of(self._list_element(element))
            case Kind.MAP:
                return self._map(element)
            case Kind.VARIANT:
                return self._variant(element)
        return None

    def _leaf_content(self, element: Element) -> _Content:
        self._leaf += 1
        plain = as_read(element)
        if (primitive := primitive_type(plain)) is None:
            raise _NotIcebergError(f"{spelled(element)} has no Iceberg type")
        if (how := _shown(element, plain)) is not None:
            self.shown[self._next - 1] = how
        return primitive, ()

    def _struct(self, element: Element, repeated: bool) -> _Content:
        children = self._fields(element, repeated=repeated)
        if all(child.reason for child in children):
            reasons = (f"{child.field.name}: {child.reason}" for child in children)
            raise _NotIcebergError("; ".join(reasons) or "the group has no fields")
        return StructType(*(child.field for child in children)), children

    def _list_element(self, group: Element) -> Column:
        repeated = self._repeated_child(group)
        if self._is_element_itself(group, repeated):
            return self._node(replace(repeated, name="element", repetition=Repetition.REQUIRED), repeated=True)
        return self._field(replace(self._take(), name="element"), repeated=True)

    def _is_element_itself(self, group: Element, repeated: Element) -> bool:
        """Whether a list has two levels: its repeated node is the element, not a wrapper of it."""
        return (
            repeated.physical is not None
            or repeated.children != 1
            or repeated.kind in (Kind.LIST, Kind.MAP)
            or repeated.name in ("array", f"{group.name}_tuple")
            or self._elements[self._next].repetition is Repetition.REPEATED
        )

    def _list_of(self, element: Column) -> _Content:
        if element.reason is not None:
            raise _NotIcebergError(f"its elements are unreadable: {element.reason}")
        field = element.field
        kind = ListType(element_id=field.field_id, element=field.field_type, element_required=field.required)
        return kind, (element,)

    def _map(self, group: Element) -> _Content:
        place = self._next - 1
        entry = self._repeated_child(group)
        if entry.physical is not None or entry.children != 2:
            raise _OtherShapeError
        key_element = self._take()
        if key_element.repetition is Repetition.OPTIONAL:
            # Arrow's maps have no null keys, so that pyarrow refuses a map whose keys might be null.
            self.shown |= {place: Shown.LIST, place + 1: Shown.PLAIN}
        key = self._field(replace(key_element, name="key"), repeated=True)
        value = self._field(replace(self._take(), name="value"), repeated=True)
        if reason := key.reason or value.reason:
            raise _NotIcebergError(f"its keys or values are unreadable: {reason}")
        kind = MapType(
            key_id=key.field.field_id,
            key_type=key.field.field_type,
            value_id=value.field.field_id,
            value_type=value.field.field_type,
            value_required=value.field.required,
        )
        return kind, (key, value)

    def _variant(self, group: Element) -> _Content:
        start = self._next
        for _ in range(group.children):
            self._skip(self._take())
        if problem := layout_problem(group, self._elements[start : self._next]):
            raise _NotIcebergError(problem)
        return VariantType(), ()

    def _repeated_child(self, group: Element) -> Element:
        if group.children == 1 and (child := self._take()).repetition is Repetition.REPEATED:
            return child
        raise _OtherShapeError


def _shown(element: Element, plain: Element) -> Shown | None:
    """What pyarrow is shown in place of a leaf, given as it is stored and as it is read."""
    if element.physical is Physical.INT96:
        # pyarrow takes the nanoseconds of a day for a number without a sign.
        return Shown.BYTES
    if plain.annotation is None:
        return None if element.annotation is None else Shown.PLAIN
    if plain.kind is Kind.DECIMAL and not is_usual_decimal(plain):
        return Shown.PLAIN
    return Shown.CONVERTED if element.has_odd_logical_type else None
