"""Deletion vectors: any shape of their bitmaps is read, and damage is noticed before a row is returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from formatkit.errors import CorruptFileError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import MANY_CHUNKS
from formatkit.tck.deletions import DeletionVector
from formatkit.tck.naive import File
from formatkit.tck.scan_kit import ScanKit

_FEW = File(schema=MANY_CHUNKS.schema, rows=MANY_CHUNKS.rows[:12])


@check("P10", "X77", layer=Layer.SCAN)
def deletion_vectors_of_every_shape_are_read(kit: ScanKit[Any]) -> None:
    """In arrays, bitmaps and runs; with positions that no file has, beyond 32 bits too."""
    array, bitmap = [0, 2, 11], [*range(0, 10_000, 2)]
    shapes = [(array, False), (array, True), (bitmap, False), (bitmap, True), ([*range(3, 7), 70_000, 1 << 20], True)]
    shapes += [([7, (1 << 32) + 3, (1 << 40) + 1], False)]
    files = [_FEW] * len(shapes)
    deletes = [
        DeletionVector(file=number, positions=positions, runs=runs) for number, (positions, runs) in enumerate(shapes)
    ]
    with kit.built([_FEW.schema], files, deletes=deletes, format_version=3) as table:
        table.compare(select=("id", "_pos"))
        expect.equal(table.scan().count(), len(table.expected()), "the number of rows")


@check("P10", "X77", layer=Layer.SCAN)
def one_file_may_hold_many_deletion_vectors(kit: ScanKit[Any]) -> None:
    files = [File(schema=_FEW.schema, rows=_FEW.rows[: number + 3]) for number in range(6)]
    deletes = [DeletionVector(file=number, positions=[number]) for number in (5, 0, 3, 1)]
    with kit.built([_FEW.schema], files, deletes=deletes, format_version=3) as table:
        table.compare(select=("id", "_deleted"))
        table.compare("id > 1")
        expect.equal(table.scan().count(), len(table.expected()), "the number of rows")


@check("P10", "X77", layer=Layer.SCAN)
def damage_to_a_deletion_vector_is_noticed_before_a_row_is_returned(kit: ScanKit[Any]) -> None:
    size = 4 + 4 + 8 + 4 + 8 + 4 + 4 + 2 * 3 + 4  # length, magic, count, key, header, container, offset, rows, checksum
    for at in (0, 3, 4, 7, 8, 16, 20, 24, 28, 32, 36, size - 4, size - 1):
        _refused(kit, f"damage to byte {at}", damage=_flipped(at))
    _refused(kit, "bytes that are all zero", damage=lambda data: bytes(len(data)))


@check("P10", "X77", layer=Layer.SCAN)
def a_deletion_vector_that_is_not_the_one_of_the_manifest_is_refused(kit: ScanKit[Any]) -> None:
    for miscounted in (-1, 1):
        _refused(kit, f"a count that is wrong by {miscounted}", miscounted=miscounted)
    _refused(kit, "a deletion vector of another data file", belongs_to="file:///elsewhere")


def _flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def _refused(kit: ScanKit[Any], when: str, **facts: Any) -> None:
    vector = DeletionVector(file=0, positions=[1, 5, 9], **facts)
    with (
        kit.built([_FEW.schema], [_FEW], deletes=[vector], format_version=3) as table,
        expect.raises(CorruptFileError, when=when, naming="deletes.puffin"),
        table.scan().to_batches() as found,
    ):
        next(iter(found))
