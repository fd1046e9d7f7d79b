"""Hostile JSON documents."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

__all__ = ["change", "mutants"]

_BIG = [2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, -1, 0]
_TEXTS = ["", "\x00", "\ud800", "x" * 5000, "../..", "file:///nowhere", "bucket[0]", "bucket[-1]", "truncate[0]", "map"]
_TEXTS += ["bucket[99999999999999999]", "decimal(99,99)", "decimal(-1,5)", "fixed[99999999999]", "fixed[-1]", "variant"]


def mutants(data: bytes, random: Random) -> Iterator[bytes]:
    document = json.loads(data)
    while True:
        if random.random() < 0.15:
            yield _other_text(data, random)
            continue
        changed = deepcopy(document)
        for _ in range(random.choice([1, 1, 1, 2])):
            changed = change(changed, random)
        yield json.dumps(changed).encode()


def change(document: Any, random: Random) -> Any:
    """Change one node of a document, which is any but the root most often."""
    places = list(_places(document))
    if not places:
        return _hostile(document, random)
    parent, key = random.choice(places)
    match random.choice(["replace", "replace", "replace", "leave out", "swap", "repeat", "rename"]):
        case "replace":
            parent[key] = _hostile(parent[key], random)
        case "leave out":
            del parent[key]
        case "swap":
            other, at = random.choice(places)
            parent[key] = deepcopy(other[at])
        case "repeat" if isinstance(parent, list):
            parent.extend([deepcopy(parent[key])] * random.choice([1, 2, 50]))
        case _ if isinstance(parent, dict):
            parent[random.choice(["", "type", "id", "name", "\ud800"])] = parent.pop(key)
    return document


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield node, key
        yield from _places(node[key])


def _hostile(value: Any, random: Random) -> Any:
    same_kind: list[Any] = []
    if isinstance(value, int):
        same_kind = [value + 1, value - 1, *_BIG]
    elif isinstance(value, str):
        same_kind = [value + "x", value[:-1], value * 2, *_TEXTS]
    elif isinstance(value, list):
        same_kind = [[], value[:1], value[::-1], [value]]
    elif isinstance(value, dict):
        same_kind = [{}, {"type": value}, [value]]
    others = [None, True, float("nan"), float("inf"), 1.5, "", "1", 7, -1, [], {}, [None], {"": None}, nested(random)]
    return random.choice(same_kind if same_kind and random.random() < 0.6 else others)


def nested(random: Random) -> Any:
    """A value with hundreds of levels, of the shape of a schema's types sometimes."""
    found: Any = "int"
    for number in range(random.choice([60, 200, 400])):
        match random.choice(["list", "list", "struct", "plain"]):
            case "list":
                found = {"type": "list", "element-id": number, "element": found, "element-required": False}
            case "struct":
                found = {"type": "struct", "fields": [{"id": number, "name": "f", "type": found, "required": False}]}
            case "plain":
                found = [found]
    return found


def _other_text(data: bytes, random: Random) -> bytes:
    place = random.randrange(len(data))
    return random.choice(
        [
            b"",
            data[:place],
            data[:place] + random.randbytes(3) + data[place + 3 :],
            b"\xef\xbb\xbf" + data,
            data.decode().encode("utf-16"),
            b"[" * 100_000,
            b'{"a":' * 5000 + b"1" + b"}" * 5000,
            data.replace(b"1", b"9" * 5000, 1),
            data + data,
            gzip.compress(data)[: random.randrange(10, 200)],
            gzip.compress(bytes(60_000_000)),
            b"\x1f\x8b" + random.randbytes(40),
            gzip.compress(data) + b"garbage",
        ]
    )
