"""Protocol Buffers' wire format: messages as trees whose keys are the names of ORC's fields."""

from __future__ import annotations

from formatkit.formats.orc.protobuf import encode_varint
from formatkit.formats.parquet.thrift import varint
from support.mutations.tree import Node, Numbered, named_fields

__all__ = ["MESSAGES", "encode", "parse"]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
MESSAGES = named_fields(
    {
        "PostScript": "1=footerLength 2=compression 3=compressionBlockSize 4=version 5=metadataLength"
        " 6=writerVersion 7=stripeStatisticsLength 8000=magic",
        "Footer": "1=headerLength 2=contentLength 3=stripes:StripeInformation 4=types:Type"
        " 5=metadata:UserMetadataItem 6=numberOfRows 7=statistics:ColumnStatistics 8=rowIndexStride 9=writer"
        " 10=encryption 11=calendar 12=softwareVersion",
        "StripeInformation": "1=offset 2=indexLength 3=dataLength 4=footerLength 5=numberOfRows",
        "Type": "1=kind 2=subtypes 3=fieldNames 4=maximumLength 5=precision 6=scale 7=attributes:StringPair",
        "StringPair": "1=key 2=value",
        "UserMetadataItem": "1=name 2=value",
        "Metadata": "1=stripeStats:StripeStatistics",
        "StripeStatistics": "1=colStats:ColumnStatistics",
        "ColumnStatistics": "1=numberOfValues 2=intStatistics:Any 3=doubleStatistics:Any 4=stringStatistics:Any"
        " 5=bucketStatistics:Any 6=decimalStatistics:Any 7=dateStatistics:Any 8=binaryStatistics:Any"
        " 9=timestampStatistics:Any 10=hasNull 11=bytesOnDisk",
        "StripeFooter": "1=streams:Stream 2=columns:ColumnEncoding 3=writerTimezone",
        "Stream": "1=kind 2=column 3=length",
        "ColumnEncoding": "1=kind 2=dictionarySize 3=bloomEncoding",
        "RowIndex": "1=entry:RowIndexEntry",
        "RowIndexEntry": "1=positions 2=statistics:ColumnStatistics",
        "Any": "",
    }
)


def parse(data: bytes, message: str) -> Node:
    """A message; fields that are no messages stay numbers or bytes."""
    children = []
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        name, inner = MESSAGES[message].get(key >> 3, (str(key >> 3), ""))
        value, at = varint(data, at) if key & 7 in (_VARINT, _LENGTH) else (8 if key & 7 == _FIXED64 else 4, at)
        content = data[at : at + value]
        if key & 7 == _VARINT:
            child = Node("int", value)
        else:
            at += value
            plain = Node("bytes" if key & 7 == _LENGTH else "raw", content)
            child = parse(content, inner) if inner else plain
        child.key = Numbered(name, key >> 3)
        children.append(child)
    return Node("struct", children)


def encode(root: Node) -> bytes:
    """The bytes of a message, made from the innermost ones outwards: edits nest thousands of levels deep."""
    order: list[Node] = []
    pending = [root]
    while pending:
        node = pending.pop()
        order.append(node)
        if node.kind in ("struct", "list"):
            pending += node.value
    contents: dict[int, bytes] = {}
    for node in reversed(order):
        contents[id(node)] = (
            b"".join(_field(child, contents[id(child)]) for child in node.value)
            if node.kind in ("struct", "list")
            else _content(node)
        )
    return contents[id(root)]


def _content(node: Node) -> bytes:
    match node.kind:
        case "int" | "bool":
            return encode_varint(int(node.value) & ((1 << 64) - 1))
        case "null":
            return b""
    return bytes(node.value)


def _field(node: Node, content: bytes) -> bytes:
    number = getattr(node.key, "number", 1)
    if node.kind in ("int", "bool"):
        return encode_varint(number << 3 | _VARINT) + content
    if node.kind == "raw" and len(content) in (4, 8):
        return encode_varint(number << 3 | (_FIXED64 if len(content) == 8 else _FIXED32)) + content
    length = len(content) if node.claim is None else node.claim
    return encode_varint(number << 3 | _LENGTH) + encode_varint(length) + content
