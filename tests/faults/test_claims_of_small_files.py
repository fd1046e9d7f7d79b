"""Small files that claim or hold much do not take more memory than the limits say."""

from __future__ import annotations

import bz2
import json
import lzma
import struct
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest

from formatkit.contract import OpenOptions, ReadOptions
from formatkit.errors import CorruptFileError
from formatkit.formats.arrow.reader import ArrowReader
from formatkit.io import MemorySource

READ = """
import re, resource, sys
from pathlib import Path
import formatkit

formatkit.read_file(sys.argv[2]).to_arrow()  # everything is imported
size = int(re.search(r"VmSize:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (size + (700 << 20), size + (700 << 20)))
try:
    formatkit.read_file(sys.argv[1]).to_arrow()
except formatkit.FormatkitError as error:
    print(type(error).__name__)
"""
SYNC = b"0123456789abcdef"


def varint(number: int) -> bytes:
    bits, found = number << 1, b""
    while bits > 127:
        found, bits = found + bytes([bits & 127 | 128]), bits >> 7
    return found + bytes([bits])


def avro_file(codec: str, payload: bytes) -> bytes:
    fields = [{"name": "a", "type": "long", "field-id": 1}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields}).encode()
    entries = (b"avro.schema", schema, b"avro.codec", codec.encode())
    header = b"Obj\x01" + varint(2) + b"".join(varint(len(entry)) + entry for entry in entries) + varint(0) + SYNC
    return header + varint(5) + varint(len(payload)) + payload + SYNC


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux")
@pytest.mark.parametrize("codec", ["bzip2", "xz"])
def test_a_block_takes_about_as_much_memory_as_its_content(codec: str, tmp_path: Path) -> None:
    content = bytes(500 << 20)
    payload = bz2.compress(content, 1) if codec == "bzip2" else lzma.compress(content, preset=0)
    path = tmp_path / "bomb.avro"
    path.write_bytes(avro_file(codec, payload))
    assert path.stat().st_size < 100_000
    small = tmp_path / "small.avro"
    small.write_bytes(avro_file("null", bytes(5)))
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), str(small)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.strip() == "CorruptFileError", done.stderr[-2000:]


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_buffer_that_claims_more_than_its_bytes_can_hold_is_damage(codec: Literal["zstd", "lz4"]) -> None:
    length = 8 * 3000
    output = BytesIO()
    table = pa.table({"a": pa.array(range(3000), pa.int64())})
    with ipc.new_file(output, table.schema, options=ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table)
    data, claim = output.getvalue(), struct.pack("<q", length)
    assert data.count(claim) == 1
    source = MemorySource(data.replace(claim, struct.pack("<q", 1 << 60)))
    file = ArrowReader().open(source, OpenOptions())
    with (
        pytest.raises(CorruptFileError, match="claims"),
        file.read(ReadOptions(projection=file.schema)).batches as rows,
    ):
        list(rows)
