"""Ways to change a value of a tree that hold for every encoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from support.mutations.tree import Kind, Node, Numbered

__all__ = ["OTHER_TYPES", "Lie", "become", "put", "remove", "tell_one"]

Lie = tuple[str, Callable[[], Any]]
"""What is claimed, and what makes the file claim it."""

OTHER_TYPES: list[tuple[Kind, Any]] = [("int", 77), ("bytes", b"\1"), ("list", []), ("struct", [])]


def become(node: Node, kind: Kind, value: Any) -> None:
    """Make a value another one, perhaps of another type."""
    if node.kind != kind:
        node.tag = None
    node.kind, node.value, node.edited = kind, value, True


def put(parent: Node, key: str, number: int, kind: Kind, value: Any) -> None:
    """Set a field, which may not be there yet."""
    child = parent.get(key)
    if child is None:
        child = Node(kind, value, Numbered(key, number), edited=True)
        parent.value = sorted([*parent.value, child], key=lambda each: each.key.number)
    become(child, kind, value)


def remove(parent: Node, key: str) -> None:
    """Leave a field out."""
    parent.value = [child for child in parent.value if child.key != key]


def tell_one(data: st.DataObject, lies: Sequence[Lie]) -> None:
    """Tell one of some lies."""
    if lies:
        what, tell = lies[data.draw(st.integers(0, 999), label="lie") % len(lies)]
        note(what)
        tell()
