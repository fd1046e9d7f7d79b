"""Whole columns of local files, for which pyarrow can read the file as it is stored.

That saves a copy of all bytes, which makes up for what is done here before and after. It is not done where pyarrow
would find other columns than those that are meant, or make something else of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow.orc import ORCFile

from formatkit.formats.orc.projection import Wanted
from formatkit.formats.orc.stripe_reads import StripeReads
from formatkit.formats.orc.stripes import UTC
from formatkit.formats.orc.tail import Kind, Stripe, Tail

__all__ = ["StoredColumns"]

_OTHERWISE = frozenset({Kind.MAP, Kind.CHAR, Kind.VARCHAR, Kind.UNION, Kind.GEOMETRY, Kind.GEOGRAPHY})
_TIMESTAMPS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})


class StoredColumns:
    """Columns of one file.

    Args:
        tail: The tail of the file.
        reads: The read that they are for.
    """

    def __init__(self, tail: Tail, reads: StripeReads) -> None:
        root = tail.types[0]
        self._names = dict(zip(root.subtypes, root.names, strict=True))
        # A dot would mean a field of a struct, and other signs may be taken for quotes.
        self._is_clear = len(set(root.names)) == len(root.names) and all(name.isidentifier() for name in root.names)
        self._reads = reads
        self._file: ORCFile | None = None
        self._kinds: dict[int, frozenset[Kind] | None] = {}

    def read(self, stripe: Stripe, wanted: Sequence[Wanted]) -> pa.RecordBatch | None:
        """The columns, or None if they must be read in another way."""
        if not (self._is_clear and all(self._is_as_meant(stripe, one) for one in wanted)):
            return None
        if self._file is None:
            if (file := self._reads.native_file()) is None:
                self._is_clear = False
                return None
            self._file = ORCFile(file)
        names = [self._names[one.column.type_id] for one in wanted]
        return self._file.read_stripe(stripe.index, names).select(names)

    def _is_as_meant(self, stripe: Stripe, wanted: Wanted) -> bool:
        type_id = wanted.column.type_id
        if type_id not in self._kinds:
            self._kinds[type_id] = _kinds_if_whole(wanted)
        kinds = self._kinds[type_id]
        if kinds is None or kinds & _OTHERWISE:
            return False
        return not kinds & _TIMESTAMPS or self._reads.footer(stripe).stored_timezone == UTC


def _kinds_if_whole(wanted: Wanted) -> frozenset[Kind] | None:
    """The kinds of a column and what is below it, if all of it is wanted."""
    stored = list(wanted.column.walk())
    if [one.column.type_id for one in wanted.walk() if one.stored] != [one.type_id for one in stored]:
        return None
    return frozenset(one.type.kind for one in stored)
