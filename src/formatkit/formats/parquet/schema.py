"""The Parquet schema of a file as an Iceberg schema, decided by structure: names of repeated groups mean nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType, UnknownType

from formatkit.contract.variant import VariantType
from formatkit.errors import CorruptFileError, UnsupportedError
from formatkit.formats.parquet.elements import Element, Kind, Repetition
from formatkit.formats.parquet.types import primitive_type, spelled
from formatkit.formats.parquet.variant_layout import layout_problem

__all__ = ["MAX_LEVELS", "Column", "FileSchema", "file_schema"]

MAX_LEVELS = 99
"""How many levels of elements a file may have below the root, two for each list and map: no more are read by Arrow."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One field of the file at any level, and where its values are.

    Attributes:
        field: The field as the file's Iceberg schema shows it.
        leaves: The leaf columns below it, by index; a single one for a primitive, unless it is a variant.
        children: The fields of a struct, the element of a list, the key and the value of a map.
        element: How a primitive is stored; None for nested types and variants.
        repeated: Whether a row may hold several values, so that statistics say nothing about rows.
        reason: Why the values cannot be read, if they cannot.
    """

    field: NestedField
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
        unreadable_elements: The elements of these columns, by their place in the footer.
    """

    columns: tuple[Column, ...]
    schema: Schema
    unreadable: Mapping[int, str]
    unreadable_elements: frozenset[int]


def file_schema(elements: Sequence[Element], location: str) -> FileSchema:
    """Turn the flattened tree that a footer stores into columns."""
    _check_levels(elements, location)
    try:
        translation = _Translation(elements)
        columns = translation.columns()
    except IndexError:
        msg = f"{location}: the schema in the footer ends before all its groups are complete"
        raise CorruptFileError(msg, location=location) from None
    nodes = [node for column in columns for node in column.walk()]
    for field_id, count in Counter(node.field.field_id for node in nodes).items():
        if count > 1:
            names = ", ".join(node.field.name for node in nodes if node.field.field_id == field_id)
            msg = f"{location}: field id {field_id} is stored for several columns: {names}"
            raise CorruptFileError(msg, location=location)
    try:
        schema = Schema(*(column.field for column in columns))
    except ValueError as error:
        msg = f"{location}: the column names of the file are ambiguous: {error}"
        raise CorruptFileError(msg, location=location) from None
    unreadable = {node.field.field_id: node.reason for node in nodes if node.reason is not None}
    return FileSchema(
        columns=columns,
        schema=schema,
        unreadable=unreadable,
        unreadable_elements=frozenset(translation.unreadable_elements),
    )


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


class _Translation:
    """One pass over the elements, which stand in depth-first order."""

    def __init__(self, elements: Sequence[Element]) -> None:
        self._elements = elements
        self._next = 0
        self._leaf = 0
        self._without_id = 0
        self.unreadable_elements: set[int] = set()

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
        seen: Counter[str] = Counter()
        columns = []
        for _ in range(group.children):
            element = self._take()
            seen[element.name] += 1
            if (count := seen[element.name]) > 1:
                # A schema cannot hold a name twice; the id still finds the column.
                element = replace(element, name=f"{element.name}#{count}")
            columns.append(self._field(element, repeated=repeated))
        return tuple(columns)

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
        position, leaf = self._next, self._leaf
        required, reason = element.repetition is not Repetition.OPTIONAL, None
        try:
            kind, children = content()
        except _NotIcebergError as error:
            self._next, self._leaf = position, leaf
            self._skip(element)
            self.unreadable_elements.update(range(position - 1, self._next))
            kind, children, reason = UnknownType(), (), str(error)
        if element.field_id is None:
            self._without_id -= 1
        return Column(
            field=NestedField(
                self._without_id if element.field_id is None else element.field_id,
                element.name,
                kind,
                required=required and not isinstance(kind, UnknownType),
            ),
            leaves=range(leaf, self._leaf),
            children=children,
            element=element if element.physical is not None else None,
            repeated=repeated,
            reason=reason,
        )

    def _content(self, element: Element, repeated: bool) -> _Content:
        if element.physical is not None:
            self._leaf += 1
            if (primitive := primitive_type(element)) is None:
                raise _NotIcebergError(f"{spelled(element)} has no Iceberg type")
            return primitive, ()
        match element.kind:
            case Kind.LIST:
                return self._list_of(self._list_element(element))
            case Kind.MAP:
                return self._map(element)
            case Kind.VARIANT:
                return self._variant(element)
            case None:
                return self._struct(element, repeated)
            case kind:
                raise _NotIcebergError(f"a group annotated {kind.name} has no Iceberg type")

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
        entry = self._repeated_child(group)
        if entry.physical is not None or entry.children != 2:
            raise _NotIcebergError(f"a map needs a key and a value, its entries have {entry.children} fields")
        if (key_element := self._take()).repetition is not Repetition.REQUIRED:
            raise _NotIcebergError("the keys of a map must be required")
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
        kind = "list" if group.kind is Kind.LIST else "map"
        raise _NotIcebergError(f"a group annotated as {kind} must hold one repeated field and nothing else")
