"""Files that are encrypted by the format itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from formatkit.contract import Capability, Encryption, OpenOptions, ReadOptions, WriteOptions
from formatkit.errors import FormatkitError, UnsupportedError
from formatkit.io import MemorySink
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import NESTED, PRIMITIVES, DataSet, numbered
from formatkit.tck.kits import FormatKit

_ENCRYPTION = Encryption(key=bytes(range(16)), aad_prefix=b"table/file")
_TWIN = "encryption_that_is_not_declared_is_refused"


@check("R9", "J61", "J62", layer=Layer.FORMAT, when=Capability.ENCRYPTION, twin=_TWIN)
def encrypted_files_are_read_with_their_key(kit: FormatKit[Any]) -> None:
    for data in (PRIMITIVES, NESTED):
        stored = _encrypted(kit, data)
        expect.equal_rows(_rows(kit, stored, data, _ENCRYPTION), data.rows, f"rows of encrypted {data.name}")


@check("R9", "J61", "J62", layer=Layer.FORMAT, when=Capability.ENCRYPTION, twin=_TWIN)
def encrypted_files_are_not_read_without_their_key(kit: FormatKit[Any]) -> None:
    stored = _encrypted(kit, PRIMITIVES)
    wrong = {
        "no key": None,
        "another key": replace(_ENCRYPTION, key=bytes(16)),
        "another AAD prefix": replace(_ENCRYPTION, aad_prefix=b"table/other"),
    }
    for what, encryption in wrong.items():
        with expect.raises(FormatkitError, when=f"reading an encrypted file with {what}"):
            _rows(kit, stored, PRIMITIVES, encryption)


@check("R9", "J61", "J62", layer=Layer.FORMAT, when=Capability.ENCRYPTION, twin=_TWIN)
def encrypted_files_do_not_show_what_they_hold(kit: FormatKit[Any]) -> None:
    secret = numbered("secrets", name=(PRIMITIVES.schema.find_type("text"), ["rosebud" * 9] * 6))
    expect.that(b"rosebud" not in _encrypted(kit, secret), "a value can be read in the bytes of an encrypted file")


@check("R9", "X70", "X82", layer=Layer.FORMAT, unless=Capability.ENCRYPTION)
def encryption_that_is_not_declared_is_refused(kit: FormatKit[Any]) -> None:
    sink = MemorySink()
    with expect.raises(UnsupportedError, when="writing an encrypted file"):
        kit.plugin.writer().open(sink, WriteOptions(schema=PRIMITIVES.schema, encryption=_ENCRYPTION)).abort()
    expect.that(sink.data is None, "a file is left after the refusal to encrypt it")
    stored = kit.write(PRIMITIVES.schema, PRIMITIVES.rows)
    with (
        expect.raises(UnsupportedError, when="opening a file with a key"),
        kit.opened(stored.data, OpenOptions(encryption=_ENCRYPTION)),
    ):
        pass


def _encrypted(kit: FormatKit[Any], data: DataSet) -> bytes:
    sink = MemorySink()
    options = WriteOptions(schema=data.schema, properties=kit.small_chunks, encryption=_ENCRYPTION)
    with kit.plugin.writer().open(sink, options) as writer:
        for start in range(0, len(data.rows), 3):
            writer.write(kit.batches.batch(data.schema, data.rows[start : start + 3]))
    if sink.data is None:
        raise expect.CheckFailedError("rows were written, but there is no file")
    return sink.data


def _rows(kit: FormatKit[Any], data: bytes, expected: DataSet, encryption: Encryption | None) -> list[Any]:
    with kit.opened(data, OpenOptions(encryption=encryption)) as file:
        return kit.read(file, ReadOptions(projection=file.schema, batch_rows=100), expected.schema)
