"""JSON documents as trees."""

from __future__ import annotations

import json
from typing import Any

from support.mutations.tree import Node

__all__ = ["encode", "parse"]


def parse(text: bytes | str) -> Node:
    return _node(json.loads(text), None)


def _node(value: Any, key: Any) -> Node:
    match value:
        case bool():
            return Node("bool", value, key)
        case None:
            return Node("null", None, key)
        case int():
            return Node("int", value, key)
        case float():
            return Node("raw", json.dumps(value).encode(), key)
        case str():
            return Node("bytes", value.encode(), key)
        case dict():
            return Node("struct", [_node(child, name) for name, child in value.items()], key)
    return Node("list", [_node(child, None) for child in value], key)


def encode(root: Node) -> bytes:
    """The document. Doubled keys stay doubled, and bytes that are no text stay what they are."""
    output = bytearray()
    pending: list[Any] = [root]
    while pending:
        step = pending.pop()
        if isinstance(step, bytes):
            output += step
        elif step.kind in ("list", "struct"):
            _open(step, pending)
        else:
            output += _leaf(step)
    return bytes(output)


def _open(node: Node, pending: list[Any]) -> None:
    inside: list[Any] = []
    for child in node.value:
        if inside:
            inside.append(b",")
        if node.kind == "struct":
            inside.append(json.dumps(str(child.key)).encode() + b":")
        inside.append(child)
    opening, closing = (b"{", b"}") if node.kind == "struct" else (b"[", b"]")
    pending += [closing, *reversed(inside), opening]


def _leaf(node: Node) -> bytes:
    match node.kind:
        case "bool":
            return b"true" if node.value else b"false"
        case "null":
            return b"null"
        case "int":
            return str(node.value).encode()
        case "raw":
            return bytes(node.value)
    quoted = json.dumps(bytes(node.value).decode("utf-8", "surrogateescape"), ensure_ascii=False)
    return quoted.encode("utf-8", "surrogateescape")
