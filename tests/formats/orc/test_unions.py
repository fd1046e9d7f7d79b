"""ORC's unions are structs of their branches, and rows that are no structs are one column, as pyorc reads them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pyorc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import StructType

import formatkit
from formatkit.contract import OpenOptions, ReadOptions
from formatkit.errors import CorruptFileError
from formatkit.formats.orc.reader import OrcReader
from support.announced import AnnouncedSource
from support.mutations.orc_file import OrcFile
from support.orc_files import open_bytes, pyorc_bytes, read_rows

Type = Any
"""A type: its name, or a tuple of a kind and what is inside."""

LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "timestamp": st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),
}
PYTHON = {"int": int, "string": str, "timestamp": datetime, "array": list, "map": dict, "struct": tuple}
"""What values of a type are to pyorc: by them it tells the branches of a union apart."""


def inside(kinds: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    pairs = st.tuples(st.just("map"), st.just("string"), kinds)
    structs = st.tuples(st.just("struct"), kinds, kinds)
    # pyorc ends the process at a null union whose first branch is no number, and takes one nested type for another.
    branches = st.tuples(
        st.just(["int"]),
        st.lists(st.sampled_from(["string", "timestamp"]), max_size=2, unique=True),
        st.lists(kinds.filter(lambda kind: name_of(kind) in ("struct", "array", "map")), max_size=1),
    )
    unions = branches.map(lambda found: ("union", *chain(*found)))
    return st.tuples(st.just("array"), kinds) | pairs | structs | unions | unions


def name_of(kind: Type) -> str:
    return kind if isinstance(kind, str) else str(kind[0])


def spelled(kind: Type) -> str:
    match kind:
        case "struct", first, second:
            return f"struct<a:{spelled(first)},b:{spelled(second)}>"
        case "union", *branches:
            return f"uniontype<{','.join(map(spelled, branches))}>"
        case str():
            return kind
    return f"{kind[0]}<{','.join(map(spelled, kind[1:]))}>"


def values(kind: Type) -> st.SearchStrategy[Any]:
    """Values as pyorc takes them; to it, a null branch is a null union."""
    match kind:
        case "array", element:
            return st.lists(st.none() | values(element), max_size=3)
        case "map", key, value:
            return st.dictionaries(values(key), st.none() | values(value), max_size=3)
        case "struct", *fields:
            return st.tuples(*(st.none() | values(field) for field in fields))
        case "union", *branches:
            return st.one_of(*map(values, branches))
    return LEAVES[kind]


def shown(kind: Type, value: Any) -> Any:
    """What pyorc's value is in Arrow."""
    if value is None:
        return None
    match kind:
        case "array", element:
            return [shown(element, each) for each in value]
        case "map", key, inner:
            return sorted((shown(key, each), shown(inner, value[each])) for each in value)
        case "struct", *fields:
            return {name: shown(field, each) for name, field, each in zip("ab", fields, value, strict=True)}
        case "union", *branches:
            tag = next(i for i, branch in enumerate(branches) if type(value) is PYTHON[name_of(branch)])
            stored = {f"field{i}": shown(branch, value) if i == tag else None for i, branch in enumerate(branches)}
            return {"tag": tag, **stored}
        case "timestamp":
            return value.replace(tzinfo=None)
    return value


def in_order(value: Any) -> Any:
    """A value of Arrow, with the pairs of maps in order."""
    match value:
        case dict():
            return {name: in_order(each) for name, each in value.items()}
        case [tuple(), *_]:
            return sorted((key, in_order(each)) for key, each in value)
        case list():
            return [in_order(each) for each in value]
    return value


@given(data=st.data())
def test_unions_at_any_place_are_what_pyorc_reads(data: st.DataObject) -> None:
    kind = data.draw(inside(st.recursive(st.sampled_from(list(LEAVES)), inside, max_leaves=6)), label="type")
    written = data.draw(st.lists(st.none() | values(kind), max_size=8), label="values")
    codec = data.draw(st.sampled_from([pyorc.CompressionKind.NONE, pyorc.CompressionKind.ZLIB]))
    rows = [(number, value) for number, value in enumerate(written * 3)]
    stored = pyorc_bytes(f"struct<n:int,u:{spelled(kind)}>", rows, compression=codec)
    expected = [{"n": number, "u": shown(kind, value)} for number, value in pyorc.Reader(io.BytesIO(stored))]
    assert [in_order(row) for row in read_rows(open_bytes(stored))] == expected
    plain = pyorc_bytes(spelled(kind), [value for _, value in rows], compression=codec)
    if name_of(kind) != "struct":
        assert [in_order(row) for row in read_rows(open_bytes(plain))] == [{"value": row["u"]} for row in expected]


def unions(rows: Sequence[int], **options: Any) -> bytes:
    kind = "uniontype<int,string,array<uniontype<int,string>>>"
    return pyorc_bytes(
        f"struct<n:int,u:{kind},s:struct<v:uniontype<int,string>>>",
        [(n, (n, f"text {n}", [n, "x"], None)[n % 4], ((n, "v")[n % 2],)) for n in rows],
        **options,
    )


UNCOMPRESSED = {"compression": pyorc.CompressionKind.NONE, "dict_key_size_threshold": 0.0}
UNIONS = {
    "one stripe": unions(range(60)),
    # pyorc stores null unions wrongly where a file takes more than one batch.
    "many stripes": unions([n for n in range(60) if n % 4 != 3], stripe_size=1, batch_size=10, **UNCOMPRESSED),
}


@pytest.fixture(params=UNIONS)
def stored(request: pytest.FixtureRequest) -> bytes:
    return UNIONS[request.param]


def test_there_are_many_stripes() -> None:
    assert len(open_bytes(UNIONS["many stripes"]).split_offsets) > 2


def test_the_type_is_a_struct_of_a_tag_and_optional_branches() -> None:
    found = open_bytes(UNIONS["one stripe"]).schema.find_type("u")
    assert isinstance(found, StructType)
    assert [str(field.field_type) for field in found.fields[:3]] == ["int", "int", "string"]
    assert [(field.name, field.required) for field in found.fields] == [
        ("tag", True),
        *((f"field{i}", False) for i in range(3)),
    ]


@pytest.mark.parametrize(
    ("where", "right"),
    [
        ("u.tag = 1", lambda n: n % 4 == 1),
        ("u is null", lambda n: n % 4 == 3),
        ("u.tag is null", lambda n: n % 4 == 3),
        ("u.field0 is null", lambda n: n % 4 != 0),
        ("u.field0 >= 20", lambda n: n % 4 == 0 and n >= 20),
        ("u.field0 < 0", lambda n: False),
        ("u.field1 = 'text 41'", lambda n: n == 41),
        ("u.field1 != 'text 41'", lambda n: n != 41),
        ("u.field2 is not null", lambda n: n % 4 == 2),
        ("s.v.field1 = 'v' and n < 10", lambda n: n % 2 == 1 and n < 10),
    ],
)
def test_branches_are_filtered_by(where: str, right: Any, stored: bytes) -> None:
    rows = [row["n"] for row in read_rows(open_bytes(stored))]
    assert [row["n"] for row in read_rows(open_bytes(stored), where=where)] == [n for n in rows if right(n)]


@pytest.mark.parametrize("name", ["u.tag", "u.field1", "u.field2", "s.v.field0"])
def test_a_branch_is_selected_alone(name: str, stored: bytes, tmp_path: Path) -> None:
    (tmp_path / "u.orc").write_bytes(stored)
    everything = formatkit.read_file(tmp_path / "u.orc").to_arrow().to_pylist()
    found = formatkit.read_file(tmp_path / "u.orc", select=(name,)).to_arrow().to_pylist()

    def narrowed(value: Any, names: list[str]) -> Any:
        return value if value is None or not names else {names[0]: narrowed(value[names[0]], names[1:])}

    assert found == [narrowed(row, name.split(".")) for row in everything]


def test_branches_are_announced_and_read_once(stored: bytes) -> None:
    source = AnnouncedSource(stored)
    file = OrcReader().open(source, OpenOptions())
    source.forget()
    with file.read(ReadOptions(projection=file.schema.select("u"))).batches as batches:
        assert sum(batch.num_rows for batch in batches) == file.row_count
    assert source.not_announced == []
    assert source.times_read.max() == 1


def test_names_of_branches_are_told_apart_from_paths() -> None:
    file = open_bytes(pyorc_bytes("struct<`u.tag`:int,u:uniontype<int>,`u.field0`:int>", [(1, 2, 3)]))
    assert read_rows(file) == [{"u.tag": 1, "u": {"tag#2": 0, "field0": 2}, "u.field0#2": 3}]


def test_a_branch_without_iceberg_type_is_unreadable_and_others_are_read() -> None:
    file = open_bytes(pyorc_bytes("struct<u:uniontype<int,struct<>>>", [(1,), ((),), (None,)]))
    assert set(file.unreadable) == {file.schema.find_field("u.field1").field_id}
    assert [row["u"] and row["u"]["tag"] for row in read_rows(file)] == [0, 1, None]


def test_a_tag_without_branch_is_damage() -> None:
    parts = OrcFile(pyorc_bytes("struct<u:uniontype<int,string>>", [(1,)] * 10, compression=0))
    [stripe] = parts.stripes
    place = next(i for i, stream in enumerate(stripe.streams) if stream == b"\x07\x00")
    stripe.streams[place] = b"\x07\x02"
    with pytest.raises(CorruptFileError, match="the tag 2"):
        read_rows(open_bytes(parts.to_bytes()))
