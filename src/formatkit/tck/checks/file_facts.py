"""What an open file says about itself."""

from __future__ import annotations

import json
from typing import Any

from pyiceberg.types import IcebergType, ListType, MapType, StructType

from formatkit.contract import Capability, OpenOptions, ReadOptions
from formatkit.errors import UnsupportedError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import DATA_SETS, MANY_CHUNKS, NESTED, ONE_ROW, PRIMITIVES
from formatkit.tck.kits import FormatKit

_NO_METADATA = "metadata_of_a_file_that_is_not_declared_is_refused"


@check("R1", layer=Layer.FORMAT)
def columns_have_the_types_that_were_written(kit: FormatKit[Any]) -> None:
    for data in DATA_SETS:
        stored = kit.write(data.schema, data.rows)
        with kit.opened(stored.data) as file:
            found = file.schema.as_struct()
        expect.equal(_shape(found), _shape(data.schema.as_struct()), f"types of {data.name}")


@check("R1", layer=Layer.FORMAT)
def columns_have_the_names_that_were_written(kit: FormatKit[Any]) -> None:
    for data in (PRIMITIVES, NESTED):
        stored = kit.write(data.schema, data.rows)
        with kit.opened(stored.data) as file:
            expect.equal(file.schema.column_names, data.schema.column_names, f"names of {data.name}")


@check("R2", layer=Layer.FORMAT)
def every_column_of_an_own_file_is_readable(kit: FormatKit[Any]) -> None:
    for data in (PRIMITIVES, NESTED):
        stored = kit.write(data.schema, data.rows)
        with kit.opened(stored.data) as file:
            expect.equal(dict(file.unreadable), {}, f"columns of {data.name} that cannot be read")


@check("R1", layer=Layer.FORMAT)
def the_number_of_rows_is_right_or_unknown(kit: FormatKit[Any]) -> None:
    for data in (ONE_ROW, MANY_CHUNKS):
        stored = kit.write(data.schema, data.rows)
        with kit.opened(stored.data) as file:
            expect.that(file.row_count in (None, len(data.rows)), f"{len(data.rows)} rows, not {file.row_count}")


@check("R5", "X06", layer=Layer.FORMAT, when=Capability.SPLIT, twin="a_file_that_cannot_be_split_names_no_offsets")
def the_reader_finds_the_split_offsets_that_the_writer_reported(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file:
        expect.equal(tuple(file.split_offsets), stored.result.split_offsets or (), "split offsets")


@check("R5", "X70", layer=Layer.FORMAT, unless=Capability.SPLIT)
def a_file_that_cannot_be_split_names_no_offsets(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file:
        expect.equal(tuple(file.split_offsets), (), "split offsets")


@check("R1", "J08", "J09", layer=Layer.FORMAT, when=Capability.FILE_METADATA, twin=_NO_METADATA)
def key_value_pairs_are_found_in_the_file(kit: FormatKit[Any]) -> None:
    for pairs in ({"owner": "accounting"}, {"a.b": "", "ü": "two\nlines \U0001f600", "delete-type": "position"}):
        stored = kit.write(ONE_ROW.schema, ONE_ROW.rows, metadata=pairs)
        with kit.opened(stored.data) as file:
            found = {key: value for key, value in file.metadata.items() if key in pairs}
        expect.equal(found, pairs, "key-value pairs of the file")


@check("R1", "X70", layer=Layer.FORMAT, unless=Capability.FILE_METADATA)
def metadata_of_a_file_that_is_not_declared_is_refused(kit: FormatKit[Any]) -> None:
    with expect.raises(UnsupportedError, when="writing key-value pairs"):
        kit.write(ONE_ROW.schema, ONE_ROW.rows, metadata={"owner": "accounting"})


@check("R9", "X82", layer=Layer.FORMAT)
def unknown_read_properties_are_ignored(kit: FormatKit[Any]) -> None:
    unknown = {"read.nobody.knows-this": "x", "": "", f"read.{kit.plugin.file_format}.nobody-knows-this": "-1"}
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data, OpenOptions(properties=unknown)) as file:
        found = kit.read(file, ReadOptions(projection=file.schema, properties=unknown), stored.schema)
    expect.equal_rows(found, stored.rows)


@check("R1", layer=Layer.FORMAT)
def the_description_for_people_is_json(kit: FormatKit[Any]) -> None:
    stored = kit.write(NESTED.schema, NESTED.rows)
    with kit.opened(stored.data) as file:
        facts = dict(file.describe())
    expect.equal(json.loads(json.dumps(facts)), facts, "description that went through JSON")


def _shape(kind: IcebergType) -> Any:
    """A type without ids, names and documentation: the format may have to store other ones."""
    match kind:
        case StructType():
            return [(_shape(field.field_type), field.required) for field in kind.fields]
        case ListType():
            return "list", _shape(kind.element_type), kind.element_required
        case MapType():
            return "map", _shape(kind.key_type), _shape(kind.value_type), kind.value_required
    return str(kind)
