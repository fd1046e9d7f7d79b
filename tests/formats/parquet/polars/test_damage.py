"""Damaged files give typed errors or the right rows, whatever Polars thinks of them."""

from __future__ import annotations

import random
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import settings

from formatkit.errors import CorruptFileError, FormatkitError
from support.foreign_parquet import parquet_bytes
from support.polars_parquet import rows_by_polars

ROWS = 120
TABLE = pa.table(
    {
        "n": range(ROWS),
        "s": [None if n % 7 == 0 else f"v{n % 9}" for n in range(ROWS)],
        "m": pa.array([[("k", n), ("l", None)][: n % 3] for n in range(ROWS)], pa.map_(pa.string(), pa.int64())),
    }
)
SUMMED = parquet_bytes(TABLE, row_group_size=40, write_page_checksum=True)
PLAIN = parquet_bytes(TABLE, row_group_size=40, compression="none")
EXPECTED = rows_by_polars(SUMMED)
ATTEMPTS = 2 * settings.default.max_examples  # type: ignore[union-attr]


def damaged(data: bytes, seed: int) -> bytes:
    chance = random.Random(seed)
    if chance.random() < 0.2:
        return data[: chance.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5])):
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def test_no_wrong_rows_pass_where_pages_have_checksums() -> None:
    for seed in range(ATTEMPTS):
        try:
            found = rows_by_polars(damaged(SUMMED, seed))
        except FormatkitError:
            continue
        assert found == EXPECTED, seed


def test_damage_without_checksums_gives_rows_or_a_typed_error() -> None:
    for seed in range(ATTEMPTS):
        with suppress(FormatkitError):
            rows_by_polars(damaged(PLAIN, seed))


@pytest.mark.parametrize("seed", range(5))
def test_a_flipped_bit_in_a_page_is_found_by_its_checksum(seed: int) -> None:
    place = random.Random(seed).randrange(30, 60)
    changed = bytearray(SUMMED)
    changed[place] ^= 0x10
    with pytest.raises(CorruptFileError, match="<memory>"):
        rows_by_polars(bytes(changed))
