"""A tree of values that every encoding here is parsed into, and random edits of it.

An edit changes one value as a hostile writer would: to the edge of its type, by a little, to another type, to a claim
that the bytes do not keep; or it removes, doubles, swaps or nests what is there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

__all__ = ["Edit", "Kind", "Node", "Numbered", "edit", "named_fields", "walk"]

Kind = Literal["int", "bytes", "raw", "bool", "null", "list", "struct"]

_EDGES = [0, 1, -1, 127, 128, 255, 256, 32767, 65535, 65536]
_EDGES += [sign * (1 << bits) + off for bits in (31, 32, 40, 62, 63) for sign in (1, -1) for off in (-1, 0)]
_CLAIMS = [0, 1, 255, 65_536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1]
_CONTENTS = [b"", b"\0", b"\xff" * 9, b"\xc3\x28", b"a" * 5000, b"\0" * 64]
_DEEP = (40, 200, 3000)


class Numbered(str):
    """The name of a field, which knows the number that stands for it in the file."""

    number: int
    __slots__ = ("number",)

    def __new__(cls, name: str, number: int) -> Numbered:
        made = super().__new__(cls, name)
        made.number = number
        return made

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        return str(self), self.number


Fields = Mapping[int, tuple[str, str]]
"""The names of a struct's fields by number, and of which structs they or their elements are."""


def named_fields(structs: Mapping[str, str]) -> dict[str, Fields]:
    """The fields of structs, from texts such as ``1=version 2=schema:SchemaElement``."""
    return {
        struct: {
            int(number): (name.partition(":")[0], name.partition(":")[2])
            for number, _, name in (part.partition("=") for part in text.split())
        }
        for struct, text in structs.items()
    }


@dataclass(eq=False)
class Node:
    """A value.

    Attributes:
        kind: What it is; `raw` are bytes of a fixed length, which no length goes before.
        value: A number, bytes, a truth value, or nodes in stored order.
        key: Its number or name in the struct around it.
        tag: How the encoding marks its type; None for what is usual for its kind.
        claim: The length or count that is written instead of the true one.
        edited: Whether it is no longer what the writer wrote.
    """

    kind: Kind
    value: Any
    key: Any = None
    tag: int | None = None
    claim: int | None = None
    edited: bool = False

    def __getitem__(self, key: Any) -> Node:
        """The last child with this key; lists have positions."""
        children: list[Node] = self.value
        return children[key] if self.kind == "list" else next(each for each in reversed(children) if each.key == key)

    def get(self, key: Any) -> Node | None:
        return next((child for child in reversed(self.value) if child.key == key), None)

    def copy(self) -> Node:
        return copy.deepcopy(self)


@dataclass(frozen=True)
class Edit:
    """What was done, and where: names joined by dots, positions of lists in brackets."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def walk(root: Node, path: str = "") -> Iterator[tuple[str, Node, Node | None]]:
    """Each node with its path and its parent, in stored order."""
    pending: list[tuple[str, Node, Node | None]] = [(path, root, None)]
    while pending:
        where, node, parent = pending.pop()
        yield where, node, parent
        if node.kind in ("list", "struct"):
            for position, child in reversed(list(enumerate(node.value))):
                step = f"[{position}]" if node.kind == "list" else f".{child.key}"
                pending.append((f"{where}{step}", child, node))


def edit(root: Node, random: Random) -> Edit:
    """Change one place of the tree."""
    nodes = list(walk(root))
    path, node, parent = random.choice(nodes)
    structural = parent is not None and random.random() < 0.25
    what = _edit_children(nodes, node, parent, random) if structural and parent else _EDITS[node.kind](node, random)
    node.edited = True
    return Edit(path, what)


def _edit_children(nodes: list[tuple[str, Node, Node | None]], node: Node, parent: Node, random: Random) -> str:
    position = next(place for place, child in enumerate(parent.value) if child is node)
    match random.choice(["remove", "double", "swap", "replace", "nest"]):
        case "remove":
            del parent.value[position]
            return "removed"
        case "double":
            parent.value.insert(position, node.copy())
            return "doubled"
        case "swap":
            other = random.choice(parent.value)
            for name in ("kind", "value", "tag", "claim"):
                mine, its = getattr(node, name), getattr(other, name)
                setattr(node, name, its)
                setattr(other, name, mine)
            other.edited = True
            return f"swapped with {other.key}"
        case "replace":
            source_path, source, _ = random.choice(nodes)
            taken = source.copy()
            node.kind, node.value, node.tag = taken.kind, taken.value, taken.tag
            return f"replaced by a copy of {source_path}"
    return _nest(node, random)


def _nest(node: Node, random: Random) -> str:
    depth = random.choice(_DEEP)
    inner, kind = node.copy(), random.choice(["list", "struct"])
    for _ in range(depth):
        inner = Node("list", [inner], node.key) if kind == "list" else Node("struct", [inner], node.key)
    node.kind, node.value, node.tag = inner.kind, inner.value, inner.tag
    return f"nested {depth} times in a {kind}"


def _edit_int(node: Node, random: Random) -> str:
    old = node.value
    match random.randrange(4):
        case 0:
            node.value = random.choice(_EDGES)
        case 1:
            node.value = old + random.choice([-1, 1]) * random.randint(1, 8)
        case 2:
            node.value = random.choice([-old, old * 2, old // 2, old ^ (1 << random.randrange(40)), old + (1 << 32)])
        case _:
            return _retype(node, random)
    return f"{old} became {node.value}"


def _edit_bytes(node: Node, random: Random) -> str:
    old = bytes(node.value)
    match random.randrange(6):
        case 0:
            node.value = random.choice(_CONTENTS)
        case 1:
            node.value = old[: random.randrange(len(old) + 1)]
        case 2 if node.kind == "bytes":
            node.claim = random.choice([*_CLAIMS, len(old) + 1, max(len(old) - 1, 0)])
            return f"claims {node.claim} bytes instead of {len(old)}"
        case 3 if old:
            place = random.randrange(len(old))
            node.value = old[:place] + bytes([old[place] ^ (1 << random.randrange(8))]) + old[place + 1 :]
        case 4:
            node.value = old + old if random.random() < 0.5 else random.randbytes(len(old))
        case _:
            return _retype(node, random)
    return f"{old[:40]!r} became {bytes(node.value)[:40]!r} of {len(node.value)} bytes"


def _edit_bool(node: Node, random: Random) -> str:
    if random.random() < 0.3:
        return _retype(node, random)
    node.value = not node.value
    return f"became {node.value}"


def _edit_list(node: Node, random: Random) -> str:
    items: list[Node] = node.value
    match random.randrange(6):
        case 0:
            node.claim = random.choice([*_CLAIMS, len(items) + random.randint(1, 8), max(len(items) - 1, 0)])
            return f"claims {node.claim} values instead of {len(items)}"
        case 1:
            node.value = []
            return "emptied"
        case 2 if items:
            node.value = [*items, *(random.choice(items).copy() for _ in range(random.choice([1, 8, 300])))]
            return f"grown to {len(node.value)} values"
        case 3 if items:
            random.shuffle(items)
            return "shuffled"
        case 4:
            return _nest(node, random)
    return _retype(node, random)


def _retype(node: Node, random: Random) -> str:
    kinds: list[tuple[Kind, Any]] = [
        ("int", random.choice(_EDGES)),
        ("bytes", random.choice(_CONTENTS)),
        ("bool", True),
        ("null", None),
        ("list", []),
        ("struct", []),
        ("list", [Node("int", 1), Node("int", -1)]),
    ]
    old = node.kind
    node.kind, node.value = random.choice([each for each in kinds if each[0] != old])
    node.tag = None
    return f"{old} became {node.kind} {str(node.value)[:40]}"


_EDITS: dict[Kind, Callable[[Node, Random], str]] = {
    "int": _edit_int,
    "bytes": _edit_bytes,
    "raw": _edit_bytes,
    "bool": _edit_bool,
    "null": _retype,
    "list": _edit_list,
    "struct": lambda node, random: _nest(node, random) if random.random() < 0.3 else _retype(node, random),
}
