"""Maps in manifests of which every entry, and every key, may be null by its schema, as in a manifest of BigQuery's.

Iceberg's spec has none of that, and such a schema gives no ids to keys and values either. pyiceberg refuses it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from pyiceberg.avro.decoder import BinaryDecoder

__all__ = ["NullableMapReader", "usual_form"]

_Read = Callable[[BinaryDecoder], Any]
_PLAIN = {"int": "read_int", "long": "read_int", "string": "read_utf8", "bytes": "read_bytes"}


def usual_form(schema: Any) -> tuple[Any, dict[int, NullableMapReader]]:
    """An Avro schema with such maps in the form that the spec has, and what reads them, by the ids of their fields."""
    readers: dict[int, NullableMapReader] = {}
    ids = count(-1, -1)

    def changed(node: Any) -> Any:
        if isinstance(node, list):
            return [changed(each) for each in node]
        if not isinstance(node, dict):
            return node
        return {name: changed(each) for name, each in node.items()} | _usual_map(node, readers, ids)

    return changed(schema), readers


def _usual_map(field: dict[str, Any], readers: dict[int, NullableMapReader], ids: Any) -> dict[str, Any]:
    """What has to be replaced in a field of a record, if it is such a map."""
    kind = _not_null(field.get("type"))
    if "field-id" not in field or not isinstance(kind, dict) or kind.get("logicalType") != "map":
        return {}
    entry = _not_null(kind["items"])
    key, value = entry["fields"]
    if entry is kind["items"] and not isinstance(key["type"], list):
        return {}
    readers[field["field-id"]] = NullableMapReader(kind["items"])
    plain_key = key | {"field-id": next(ids), "type": _not_null(key["type"])}
    items = entry | {"fields": [plain_key, value | {"field-id": next(ids)}]}
    plain = kind | {"items": items}
    return {"type": ["null", plain] if isinstance(field["type"], list) else plain}


def _not_null(kind: Any) -> Any:
    """What a union with null is beside null."""
    return next((each for each in kind if each != "null"), "null") if isinstance(kind, list) else kind


class NullableMapReader:
    """Reads an array of entries as a map; entries and keys that are null are left out.

    Args:
        items: The Avro schema of an entry.
    """

    def __init__(self, items: Any) -> None:
        key, value = _not_null(items)["fields"]
        key_of, value_of = _reader(key["type"]), _reader(value["type"])
        self._entry = _unless_null(items, lambda decoder: (key_of(decoder), value_of(decoder)))

    def read(self, decoder: BinaryDecoder) -> dict[Any, Any]:
        found = {}
        while (entries := decoder.read_int()) != 0:
            if entries < 0:
                # The length of the block in bytes follows.
                entries, _ = -entries, decoder.read_int()
            for _ in range(entries):
                entry = self._entry(decoder)
                if entry is not None and entry[0] is not None:
                    found[entry[0]] = entry[1]
        return found

    def skip(self, decoder: BinaryDecoder) -> None:
        self.read(decoder)


def _reader(kind: Any) -> _Read:
    plain = _not_null(kind)
    name = _PLAIN[plain["type"] if isinstance(plain, dict) else plain]
    return _unless_null(kind, lambda decoder: getattr(decoder, name)())


def _unless_null(kind: Any, read: _Read) -> _Read:
    if not isinstance(kind, list):
        return read
    null = kind.index("null")
    return lambda decoder: None if decoder.read_int() == null else read(decoder)
