"""Which groups of a Parquet file are variants that can be put together: the layouts of the shredding spec."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from formatkit.formats.parquet.elements import Element, Kind, Physical, Repetition, Unit
from formatkit.formats.parquet.types import fits, is_usual_decimal, primitive_type, spelled

__all__ = ["layout_problem"]

_PARTS = frozenset({"value", "typed_value"})
_ANNOTATED = frozenset({Kind.DATE, Kind.STRING, Kind.UUID})


class _LayoutError(Exception):
    """Says what the spec does not have."""


def layout_problem(group: Element, below: Sequence[Element]) -> str | None:
    """What is wrong with a group that is annotated as a variant, or None.

    Args:
        group: The group.
        below: All elements below it, depth first.
    """
    try:
        _variant(group, iter(below))
    except _LayoutError as error:
        return f"it is annotated as a variant, but {error}"
    return None


def _variant(group: Element, elements: Iterator[Element]) -> None:
    names = _parts(group, elements, _PARTS | {"metadata"})
    if "metadata" not in names:
        raise _LayoutError("has no metadata")


def _parts(group: Element, elements: Iterator[Element], allowed: frozenset[str]) -> set[str]:
    """Check a group of metadata, value and typed value; the names that it has."""
    names = set()
    for _ in range(group.children):
        part = next(elements)
        if part.name not in allowed or part.name in names:
            raise _LayoutError(f"{group.name!r} has a field {part.name!r}")
        names.add(part.name)
        if part.name == "typed_value":
            _typed_value(part, elements)
        elif part.physical is not Physical.BYTE_ARRAY or part.repetition is Repetition.REPEATED:
            raise _LayoutError(f"{part.name!r} in {group.name!r} is not binary")
    if not names & _PARTS:
        raise _LayoutError(f"{group.name!r} has neither a value nor a typed value")
    return names


def _typed_value(element: Element, elements: Iterator[Element]) -> None:
    if element.repetition is not Repetition.OPTIONAL:
        raise _LayoutError("a typed value is not optional")
    if element.physical is not None:
        if not _is_shredded_type(element):
            raise _LayoutError(f"no variant has values of the type {spelled(element)}")
    elif element.kind is Kind.LIST:
        repeated = next(elements) if element.children == 1 else None
        if repeated is None or repeated.repetition is not Repetition.REPEATED or repeated.children != 1:
            raise _LayoutError("a shredded array has not the three levels of a list")
        _group(next(elements), elements)
    elif element.kind is None:
        names: set[str] = set()
        for _ in range(element.children):
            field = next(elements)
            if field.name in names:
                raise _LayoutError(f"a typed value has several fields {field.name!r}")
            names.add(field.name)
            _group(field, elements)
    else:
        raise _LayoutError(f"a typed value is a group annotated {element.kind.name}")


def _group(element: Element, elements: Iterator[Element]) -> None:
    """An element of a shredded array or a field of a shredded object."""
    if element.physical is not None or element.kind is not None or element.repetition is Repetition.REPEATED:
        raise _LayoutError(f"{element.name!r} in a typed value is not a group of value and typed value")
    _parts(element, elements, _PARTS)


def _is_shredded_type(element: Element) -> bool:
    annotation = element.annotation
    if not fits(element) or primitive_type(element) is None or element.physical is Physical.INT96:
        return False
    if annotation is None:
        return element.physical is not Physical.FIXED
    match annotation.kind:
        case Kind.DECIMAL:
            return element.physical is Physical.BYTE_ARRAY or is_usual_decimal(element)
        case Kind.INTEGER:
            return annotation.signed
        case Kind.TIME:
            return annotation.unit is Unit.MICROS
        case Kind.TIMESTAMP:
            return annotation.unit is not Unit.MILLIS
    return annotation.kind in _ANNOTATED
