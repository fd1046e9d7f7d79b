"""Thrift's compact protocol: structs as trees whose keys are the names of Parquet's fields."""

from __future__ import annotations

from typing import Any

from formatkit.formats.parquet.thrift import varint
from support.mutations.tree import Fields, Kind, Node, Numbered, named_fields

__all__ = ["STRUCTS", "encode", "parse"]

_BOOLEANS, _BYTE, _INTS, _DOUBLE, _BINARY, _LISTS, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
_TAGS: dict[Kind, int] = {"int": 6, "bytes": 8, "raw": 7, "bool": 1, "null": 8, "list": 9, "struct": 12}
_LONG_LIST = 15


STRUCTS = named_fields(
    {
        "FileMetaData": "1=version 2=schema:SchemaElement 3=num_rows 4=row_groups:RowGroup"
        " 5=key_value_metadata:KeyValue 6=created_by 7=column_orders:ColumnOrder",
        "SchemaElement": "1=type 2=type_length 3=repetition_type 4=name 5=num_children 6=converted_type 7=scale"
        " 8=precision 9=field_id 10=logicalType:LogicalType",
        "LogicalType": "",
        "KeyValue": "1=key 2=value",
        "ColumnOrder": "",
        "RowGroup": "1=columns:ColumnChunk 2=total_byte_size 3=num_rows 4=sorting_columns:SortingColumn 5=file_offset"
        " 6=total_compressed_size 7=ordinal",
        "SortingColumn": "1=column_idx 2=descending 3=nulls_first",
        "ColumnChunk": "1=file_path 2=file_offset 3=meta_data:ColumnMetaData 4=offset_index_offset"
        " 5=offset_index_length 6=column_index_offset 7=column_index_length",
        "ColumnMetaData": "1=type 2=encodings 3=path_in_schema 4=codec 5=num_values 6=total_uncompressed_size"
        " 7=total_compressed_size 8=key_value_metadata:KeyValue 9=data_page_offset 10=index_page_offset"
        " 11=dictionary_page_offset 12=statistics:Statistics 13=encoding_stats:PageEncodingStats"
        " 14=bloom_filter_offset 15=bloom_filter_length 16=size_statistics:SizeStatistics",
        "PageEncodingStats": "1=page_type 2=encoding 3=count",
        "SizeStatistics": "1=unencoded_byte_array_data_bytes 2=repetition_level_histogram 3=definition_level_histogram",
        "Statistics": "1=max 2=min 3=null_count 4=distinct_count 5=max_value 6=min_value 7=is_max_exact 8=is_min_exact",
        "PageHeader": "1=type 2=uncompressed_page_size 3=compressed_page_size 4=crc 5=data_page_header:DataPageHeader"
        " 7=dictionary_page_header:DictionaryPageHeader 8=data_page_header_v2:DataPageHeaderV2",
        "DataPageHeader": "1=num_values 2=encoding 3=definition_level_encoding 4=repetition_level_encoding"
        " 5=statistics:Statistics",
        "DictionaryPageHeader": "1=num_values 2=encoding 3=is_sorted",
        "DataPageHeaderV2": "1=num_values 2=num_nulls 3=num_rows 4=encoding 5=definition_levels_byte_length"
        " 6=repetition_levels_byte_length 7=is_compressed 8=statistics:Statistics",
        "OffsetIndex": "1=page_locations:PageLocation 2=unencoded_byte_array_data_bytes",
        "PageLocation": "1=offset 2=compressed_page_size 3=first_row_index",
        "ColumnIndex": "1=null_pages 2=min_values 3=max_values 4=boundary_order 5=null_counts"
        " 6=repetition_level_histograms 7=definition_level_histograms",
        "BloomFilterHeader": "1=numBytes 2=algorithm 3=hash 4=compression",
    }
)


def parse(data: bytes, at: int, struct: str) -> tuple[Node, int]:
    """The struct at a place, and where it ends."""
    return _struct(data, at, STRUCTS.get(struct, {}))


def _struct(data: bytes, at: int, fields: Fields) -> tuple[Node, int]:
    children: list[Node] = []
    number = 0
    while header := data[at]:
        at += 1
        if header >> 4:
            number += header >> 4
        else:
            raw, at = varint(data, at)
            number = (raw >> 1) ^ -(raw & 1)
        name, inner = fields.get(number, (str(number), ""))
        tag = header & 0x0F
        if tag in _BOOLEANS:
            child = Node("bool", tag == 1)
        else:
            child, at = _value(data, at, tag, inner)
        child.key, child.tag = Numbered(name, number), tag
        children.append(child)
    return Node("struct", children, tag=_STRUCT), at + 1


def _value(data: bytes, at: int, tag: int, struct: str) -> tuple[Node, int]:
    if tag in _INTS:
        raw, at = varint(data, at)
        return Node("int", (raw >> 1) ^ -(raw & 1), tag=tag), at
    if tag == _BINARY:
        length, at = varint(data, at)
        return Node("bytes", data[at : at + length], tag=tag), at + length
    if tag in _LISTS:
        header = data[at]
        count, at = (header >> 4, at + 1) if header >> 4 != _LONG_LIST else varint(data, at + 1)
        items = []
        for _ in range(count):
            item, at = _value(data, at, header & 0x0F, struct)
            items.append(item)
        return Node("list", items, tag=tag), at
    if tag == _STRUCT:
        return _struct(data, at, STRUCTS.get(struct, {}))
    if tag in _BOOLEANS:
        return Node("bool", data[at] == 1, tag=tag), at + 1
    size = {_BYTE: 1, _DOUBLE: 8}[tag]
    return Node("raw", data[at : at + size], tag=tag), at + size


def encode(root: Node) -> bytes:
    """The bytes of a struct; the root is taken for one whatever it was made to be."""
    output = bytearray()
    # A stack of its own: edits nest values thousands of levels deep.
    pending: list[Any] = [("struct", root)]
    while pending:
        step = pending.pop()
        if isinstance(step, bytes):
            output += step
            continue
        what, node = step
        if what == "struct":
            pending.append(b"\0")
            pending += reversed(_fields(node))
        else:
            _encode_value(node, output, pending)
    return bytes(output)


def _fields(node: Node) -> list[Any]:
    steps: list[Any] = []
    before = 0
    for child in node.value if node.kind in ("struct", "list") else [node]:
        number = getattr(child.key, "number", before + 1)
        tag = _tag(child)
        if child.kind == "bool":
            tag = 1 if child.value else 2
        step = number - before
        steps.append(bytes([step << 4 | tag]) if 0 < step < 16 else bytes([tag]) + _zigzag(number))
        if child.kind != "bool":
            steps.append(("value", child))
        before = number
    return steps


def _tag(node: Node) -> int:
    return _TAGS[node.kind] if node.tag is None else node.tag


def _encode_value(node: Node, output: bytearray, pending: list[Any]) -> None:
    match node.kind:
        case "int":
            output += _zigzag(node.value)
        case "bytes" | "null":
            content = node.value or b""
            output += _unsigned(len(content) if node.claim is None else node.claim) + content
        case "raw":
            output += node.value
        case "bool":
            output.append(1 if node.value else 2)
        case "struct":
            pending.append(("struct", node))
        case "list":
            count = len(node.value) if node.claim is None else node.claim
            tag = _tag(node.value[0]) if node.value else 5
            output += bytes([count << 4 | tag]) if count < _LONG_LIST else bytes([0xF0 | tag]) + _unsigned(count)
            pending += [("value", child) for child in reversed(node.value)]


def _zigzag(value: int) -> bytes:
    return _unsigned((value << 1) ^ (value >> 127))


def _unsigned(value: int) -> bytes:
    value &= (1 << 70) - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
