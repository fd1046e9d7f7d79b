"""Which files of a table are worth writing anew, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, groupby
from operator import itemgetter

from pyiceberg.table.metadata import TableMetadata

from formatkit.errors import printable
from formatkit.scan import FileTask
from formatkit.write.operations.base import whole_files
from formatkit.write.operations.matches import partition_order
from formatkit.write.operations.partitions import partition_in_words, partition_record

__all__ = ["FileChoice", "RewriteGroup", "RewritePlan"]

_SHORT, _LONG = 0.75, 1.8
"""Files are as long as wanted if they are so many times as long: where a file ends cannot be chosen exactly."""

_TOO_SHORT = "too short"

_MAX_FILES_OF_PIECE = 8
"""A piece of work reads about as much as makes so many files, at most, so that little is lost where one fails."""


@dataclass(frozen=True, kw_only=True)
class RewriteGroup:
    """Files that are written anew together.

    Attributes:
        partition: The partition in words; empty for a table without partitions.
        files: What is read.
        reasons: Why, with the number of files.
    """

    partition: str
    files: tuple[FileTask, ...]
    reasons: Mapping[str, int]

    @property
    def rows(self) -> int:
        """The rows that the files store, deleted ones included."""
        return sum(file.row_count or 0 for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes or 0 for file in self.files)


@dataclass(frozen=True, kw_only=True)
class RewritePlan:
    """What a rewrite reads. Printing it gives a table.

    Attributes:
        groups: The work, one partition after the other.
        files: How many data files the table has, or how many the filter leaves.
        file_format: What is written.
        target_file_bytes: About how long the new files get.
    """

    groups: tuple[RewriteGroup, ...]
    files: int
    file_format: str
    target_file_bytes: int

    @property
    def rewritten(self) -> tuple[FileTask, ...]:
        """All files that are read."""
        return tuple(chain.from_iterable(group.files for group in self.groups))

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self.groups)

    @property
    def bytes(self) -> int:
        return sum(group.bytes for group in self.groups)

    def pieces(self, parallelism: int) -> list[RewriteGroup]:
        """The groups, large ones cut into pieces for so many workers.

        Each piece ends with a file that is shorter than wanted, so that none is cut that makes but one file.
        """
        return [piece for group in self.groups for piece in self._cut(group, parallelism)]

    def _cut(self, group: RewriteGroup, parallelism: int) -> Iterator[RewriteGroup]:
        wanted = max(parallelism, -(-group.bytes // (_MAX_FILES_OF_PIECE * self.target_file_bytes)))
        count = min(wanted, group.bytes // self.target_file_bytes, len(group.files))
        if count <= 1:
            yield group
            return
        # Neighbours stay together: they were written one after the other, and often have similar rows.
        sizes = [max(1, file.size_bytes or 0) for file in group.files]
        middles = (end - size / 2 for end, size in zip(accumulate(sizes), sizes, strict=True))
        share = sum(sizes) / count
        placed = zip((middle // share for middle in middles), group.files, strict=True)
        for _, files in groupby(placed, key=itemgetter(0)):
            yield replace(group, files=tuple(file for _, file in files))

    def __str__(self) -> str:
        count = len(self.rewritten)
        if not count:
            return f"nothing to rewrite: none of {self.files} files"
        title = (
            f"rewrite {count} of {self.files} files as {self.file_format}, about {self.target_file_bytes:,} bytes each"
        )
        return "\n".join([title, *_table(list(self._lines()))])

    def _lines(self) -> Iterator[tuple[str, ...]]:
        yield "partition", "files", "rows", "bytes", "why"
        for group in self.groups:
            why = ", ".join(f"{reason} ({number})" for reason, number in group.reasons.items())
            yield (
                printable(group.partition) or "all",
                f"{len(group.files):,}",
                f"{group.rows:,}",
                f"{group.bytes:,}",
                why,
            )


def _table(lines: list[tuple[str, ...]]) -> Iterator[str]:
    """The lines with columns below each other, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *numbers, last in lines:
        cells = [
            first.ljust(widths[0]),
            *(number.rjust(width) for number, width in zip(numbers, widths[1:], strict=False)),
        ]
        yield "  ".join((*cells, last))


@dataclass(frozen=True, kw_only=True)
class FileChoice:
    """What makes a file worth writing anew.

    Attributes:
        metadata: The table's, whose partition spec files should have.
        target_file_bytes: About how long they should be.
        file_format: The format that they should have; None if any will do.
        other_reason: A reason that holds for all files.
        is_done: Whether the same job has written a file, which is then as long as it gets.
    """

    metadata: TableMetadata
    target_file_bytes: int
    file_format: str | None = None
    other_reason: str | None = None
    is_done: Callable[[str], bool] = field(default=lambda _: False)

    def groups(self, tasks: Iterable[FileTask]) -> Iterator[RewriteGroup]:
        """The chosen files by partition. Files of an older spec are one group, because their rows may go anywhere."""
        files = sorted(whole_files(tasks), key=self._group)
        for _, members in groupby(files, key=self._group):
            chosen = [(file, reasons) for file in members if (reasons := self._reasons(file))]
            # To write one short file anew makes another short file.
            if len(chosen) > 1 or any(reasons != [_TOO_SHORT] for _, reasons in chosen):
                yield RewriteGroup(
                    partition=self._in_words(chosen[0][0]),
                    files=tuple(file for file, _ in chosen),
                    reasons=Counter(chain.from_iterable(reasons for _, reasons in chosen)),
                )

    def _group(self, file: FileTask) -> tuple[int, str]:
        return partition_order(file) if file.spec_id == self.metadata.default_spec_id else (file.spec_id, "")

    def _reasons(self, file: FileTask) -> list[str]:
        size, done = file.size_bytes or 0, self.is_done(file.location)
        reasons = {
            self.other_reason or "": self.other_reason is not None and not done,
            f"is {file.file_format}": self.file_format not in (None, file.file_format),
            "older partition spec": file.spec_id != self.metadata.default_spec_id,
            "deleted rows": bool(file.deletes),
            _TOO_SHORT: size < _SHORT * self.target_file_bytes and not done,
            "too long": size > _LONG * self.target_file_bytes and not done,
        }
        return [reason for reason, holds in reasons.items() if holds]

    def _in_words(self, file: FileTask) -> str:
        if file.spec_id != self.metadata.default_spec_id:
            return f"of spec {file.spec_id}"
        return partition_in_words(self.metadata, partition_record(self.metadata, file), file.spec_id)
