"""Names that every format can store, as Java's writers spell them."""

from __future__ import annotations

__all__ = ["legal_name"]


def legal_name(name: str) -> str:
    """The name with what Avro does not allow in an identifier written as hexadecimal. Ids tell which column it is."""
    units = name.encode("utf-16-be", "surrogatepass")
    characters = [chr(int.from_bytes(units[i : i + 2])) for i in range(0, len(units), 2)]
    return "".join(_legal(character, first=i == 0) for i, character in enumerate(characters))


def _legal(character: str, *, first: bool) -> str:
    if character == "_" or character.isalpha():
        return character
    if character.isdecimal():
        return f"_{character}" if first else character
    return f"_x{ord(character):X}"
