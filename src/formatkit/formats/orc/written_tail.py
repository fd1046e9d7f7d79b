"""The tail of a file that is written, made of the tails of all encoders that took part in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from formatkit.formats.orc.compression import Codec, frame
from formatkit.formats.orc.merged_statistics import merge_statistics
from formatkit.formats.orc.merged_timestamps import TimestampMerge
from formatkit.formats.orc.protobuf import Message, encode, field_values
from formatkit.formats.orc.tail import MAGIC, Stripe

__all__ = ["WrittenTail"]

_CONTENT_BYTES, _STRIPES, _TYPES, _METADATA, _ROWS, _STATISTICS = 2, 3, 4, 5, 6, 7
_WRITTEN_ANEW = (_CONTENT_BYTES, _STRIPES, _TYPES, _METADATA, _ROWS, _STATISTICS)
_FOOTER_BYTES, _STATISTICS_BYTES = 1, 5


class WrittenTail:
    """Collects what encoders say about their stripes, and completes it with the pairs of the user.

    Those pairs pyarrow has no way to write.
    """

    def __init__(self, codec: Codec, block_bytes: int) -> None:
        self._codec = codec
        self._block_bytes = block_bytes
        self._types: Sequence[bytes] = ()
        self._copied: Sequence[tuple[int, int | bytes]] = ()
        self._postscript = b""
        self._stripe_statistics: list[bytes] = []
        self._statistics: list[list[bytes]] = []

    def add(self, footer: bytes, statistics: bytes, postscript: bytes, merge: TimestampMerge) -> None:
        """Take the parts of an encoder's tail, decompressed."""
        parsed = Message(footer)
        self._types = merge.types(parsed.contents(_TYPES))
        self._copied = [pair for pair in field_values(footer) if pair[0] not in _WRITTEN_ANEW]
        self._postscript = postscript
        self._statistics.append(merge.statistics(parsed.contents(_STATISTICS)))
        for stripe in Message(statistics).messages(1):
            self._stripe_statistics.append(encode((1, column) for column in merge.statistics(stripe.contents(1))))

    def encode(self, stripes: Sequence[Stripe], metadata: Mapping[str, str]) -> bytes:
        """Everything behind the stripes."""
        statistics = self._framed(encode((1, stripe) for stripe in self._stripe_statistics))
        pairs = (encode([(1, key.encode()), (2, value.encode())]) for key, value in metadata.items())
        footer = self._framed(
            encode(
                [
                    *self._copied,
                    (_CONTENT_BYTES, stripes[-1].end),
                    *((_STRIPES, _entry(stripe)) for stripe in stripes),
                    *((_TYPES, one) for one in self._types),
                    *((_METADATA, pair) for pair in pairs),
                    (_ROWS, sum(stripe.rows for stripe in stripes)),
                    *((_STATISTICS, one) for one in self._file_statistics()),
                ]
            )
        )
        lengths = {_FOOTER_BYTES: len(footer), _STATISTICS_BYTES: len(statistics)}
        end = encode((number, lengths.get(number, value)) for number, value in field_values(self._postscript))
        assert end.endswith(MAGIC)  # noqa: S101
        return b"".join((statistics, footer, end, bytes((len(end),))))

    def _framed(self, content: bytes) -> bytes:
        return frame(content, self._codec, self._block_bytes)

    def _file_statistics(self) -> list[bytes]:
        if len(self._statistics) == 1:
            return self._statistics[0]
        return [merge_statistics(column) for column in zip(*self._statistics, strict=True)]


def _entry(stripe: Stripe) -> bytes:
    lengths = (stripe.index_bytes, stripe.data_bytes, stripe.footer_bytes)
    return encode(enumerate((stripe.offset, *lengths, stripe.rows), start=1))
