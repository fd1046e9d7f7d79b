"""From the columns that are asked for to the program that decodes them and passes over all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.batches.arrow.types import arrow_type
from formatkit.contract.fields import child_fields
from formatkit.contract.metadata_columns import POS
from formatkit.contract.variant import VariantType
from formatkit.errors import ColumnNotFoundError
from formatkit.formats.avro.avro_types import AvroType, Widths
from formatkit.formats.avro.columns import Form, Output
from formatkit.formats.avro.kernels.opcodes import ANY_WIDTH, VARINT_WIDTH, Op
from formatkit.formats.avro.logical_types import unit_in_micros
from formatkit.formats.avro.schema import Column
from formatkit.formats.avro.slots import COUNTER, Slot

__all__ = ["Program", "compile_program"]

_VARINTS = ("int", "long", "enum")

Operations = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, kw_only=True)
class Program:
    """How to decode the rows of a file.

    Attributes:
        operations: Four integers each; see `Op`.
        columns: The name of the column that each operation serves, for messages.
        slots: The buffers that the operations fill.
        outputs: What becomes of the buffers: one column each of the projection, `_pos` excepted.
        least_row: The fewest bytes that a row can take.
    """

    operations: Operations
    columns: Sequence[str]
    slots: Sequence[Slot]
    outputs: Sequence[Output]
    least_row: int

    @property
    def decodes(self) -> bool:
        """Whether there is anything to decode; otherwise the row counts of the blocks say it all."""
        return bool(self.slots)


def compile_program(root: AvroType, columns: Sequence[Column], asked: Sequence[NestedField]) -> Program:
    """The program for some fields of a file, which are found by their names.

    Args:
        root: The record of which each row is one.
        columns: All of its fields.
        asked: Those to decode, or parts of them; `_pos` is left out.
    """
    compiler = _Compiler()
    outputs, _ = compiler.fields(columns, [each for each in asked if each.field_id != POS.field_id])
    compiler.finish()
    return Program(
        operations=np.array(compiler.operations, dtype=np.int64),
        columns=compiler.columns,
        slots=compiler.slots,
        outputs=outputs,
        least_row=compiler.widths.least(root),
    )


_Operation = list[int]
_Fills = list[_Operation]


@dataclass
class _Detour:
    """What is appended where a value is null; kept apart from the way of values that are not."""

    option: int
    back: int
    column: str
    fills: _Fills


@dataclass
class _Compiler:
    operations: list[_Operation] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    widths: Widths = field(default_factory=Widths)
    _column: str = ""
    _detours: list[_Detour] = field(default_factory=list)
    _fence: int = 0
    _inlined: set[AvroType] = field(default_factory=set)
    _calls: list[tuple[int, AvroType]] = field(default_factory=list)

    def finish(self) -> None:
        """End the row, and add what operations of the row jump to."""
        self._emit(Op.END_ROW)
        for detour in self._detours:
            self._column = detour.column
            self.operations[detour.option][3] = self._here()
            for operation in detour.fills:
                self._append(list(operation))
            self._emit(Op.JUMP, jump=detour.back)
        routines: dict[AvroType, int] = {}
        while self._calls:
            caller, record = self._calls.pop()
            if record not in routines:
                routines[record] = self._here()
                self._skip_fields(record)
                self._emit(Op.RETURN)
            self.operations[caller][3] = routines[record]

    # Decoding. Each method also returns what to append to its slots where the value's parent is null.

    def fields(
        self, columns: Sequence[Column], asked: Sequence[NestedField], path: str = ""
    ) -> tuple[list[Output], _Fills]:
        """Decode some fields of a record, and pass over the others, in the order in which they are stored."""
        wanted = _wanted(columns, asked, path)
        names = [column.field.name for column in columns]
        made, fills = {}, []
        for column, name in zip(columns, names, strict=True):
            self._column = path + name
            if name not in wanted or column.reason is not None:
                self._skip(column.declared)
            if name in wanted:
                made[name], more = self._output(column, wanted[name], path + name)
                fills += more
        return [made[name] for name in wanted], fills

    def _output(self, column: Column, asked: NestedField, path: str) -> tuple[Output, _Fills]:
        if column.reason is not None:
            return Output(form=Form.NULL, type=pa.null()), []
        self._column = path
        if column.stored.kind == "union" and isinstance(asked.field_type, StructType):
            return self._choice(column, asked.field_type, path)
        if column.null_branch is None:
            if column.declared.kind == "union":
                self._emit(Op.ONLY_BRANCH)
            return self._value(column, asked.field_type, path)
        validity = self._slot(Slot(width=1))
        option = self._emit(Op.OPTION, validity, column.null_branch)
        output, fills = self._value(column, asked.field_type, path)
        self._detours.append(_Detour(option, self._here(), path, fills))
        return replace(output, validity=validity), [[Op.FILL_NULL, validity, 0, 0], *fills]

    def _value(self, column: Column, asked: IcebergType, path: str) -> tuple[Output, _Fills]:
        match asked:
            case StructType():
                children, fills = self.fields(column.children, asked.fields, f"{path}.")
                return Output(form=Form.STRUCT, type=arrow_type(asked), children=children), fills
            case ListType() | MapType():
                return self._repeated(column, asked, path)
            case VariantType():
                parts = [self._bytes(pa.binary()) for _ in range(2)]
                outputs, fills = [part for part, _ in parts], [fill for _, each in parts for fill in each]
                return Output(form=Form.STRUCT, type=arrow_type(asked), children=outputs), fills
            case UnknownType():
                return Output(form=Form.NULL, type=pa.null()), []
        return self._flat(column.stored, asked)

    def _choice(self, column: Column, asked: StructType, path: str) -> tuple[Output, _Fills]:
        """Decode a union of several types. Of each branch one operation finds out whether it is the one that is stored.

        A table of jumps to branches that fill all others would be as long as the square of their number.
        """
        wanted = _wanted(column.children, asked.fields, f"{path}.")
        made: dict[str, Output] = {}
        fills: _Fills = []
        validity = option = None
        self._emit(Op.UNION, argument=len(column.stored.inner))
        if column.null_branch is not None:
            validity = self._slot(Slot(width=1))
            option = self._emit(Op.UNION_OPTION, validity, column.null_branch)
        tag, *members = column.children
        if tag.field.name in wanted:
            null_branch = len(column.stored.inner) if column.null_branch is None else column.null_branch
            made[tag.field.name], fills = self._fixed(Op.UNION_TAG, 4, pa.int32(), null_branch)
        branches = [place for place in range(len(column.stored.inner)) if place != column.null_branch]
        for branch, member in zip(branches, members, strict=True):
            name = member.field.name
            made_of, more = self._member(branch, member, wanted.get(name), f"{path}.{name}")
            if made_of is not None:
                made[name], fills = made_of, [*fills, *more]
        self._column = path
        self._emit(Op.END_UNION)
        if option is not None and validity is not None:
            self._detours.append(_Detour(option, self._here(), path, [[Op.END_UNION, 0, 0, 0], *fills]))
            fills = [[Op.FILL_NULL, validity, 0, 0], *fills]
        children = [made[name] for name in wanted]
        return Output(form=Form.STRUCT, type=arrow_type(asked), children=children, validity=validity), fills

    def _member(
        self, branch: int, member: Column, asked: NestedField | None, path: str
    ) -> tuple[Output | None, _Fills]:
        """Decode one branch of a union, or pass over it."""
        self._column = path
        if asked is None or member.reason is not None or isinstance(asked.field_type, UnknownType):
            skipped = self._emit(Op.SKIP_BRANCH, argument=branch)
            self._label()
            self._skip(member.declared)
            self.operations[skipped][3] = self._here()
            return None if asked is None else Output(form=Form.NULL, type=pa.null()), []
        validity = self._slot(Slot(width=1))
        entered = self._emit(Op.UNION_BRANCH, validity, branch)
        output, fills = self._value(member, asked.field_type, path)
        self._detours.append(_Detour(entered, self._here(), path, fills))
        return replace(output, validity=validity), [[Op.FILL_NULL, validity, 0, 0], *fills]

    def _repeated(self, column: Column, asked: ListType | MapType, path: str) -> tuple[Output, _Fills]:
        ends, counter = self._slot(Slot(width=4, ends=True)), self._slot(COUNTER)
        empty = all(self.widths.least(child.declared) == 0 for child in column.children)
        block = self._emit(Op.EMPTY_BLOCK if empty else Op.BLOCK, ends, counter)
        children = []
        if not empty:
            self._label()
        for child, child_field in zip(column.children, child_fields(asked), strict=True):
            children.append(self._output(child, child_field, f"{path}.{child.field.name}")[0])
        if not empty:
            self._emit(Op.NEXT, argument=counter, jump=block)
        self.operations[block][3] = self._here()
        form = Form.LIST if isinstance(asked, ListType) else Form.MAP
        output = Output(form=form, type=arrow_type(asked), slots=(ends, counter), children=children)
        return output, [[Op.FILL_END, ends, 0, 0]]

    def _flat(self, stored: AvroType, asked: IcebergType) -> tuple[Output, _Fills]:
        kind = arrow_type(asked)
        match stored.kind, asked:
            case "enum", _:
                output, fills = self._fixed(Op.SYMBOL, 4, kind, len(stored.symbols))
                return replace(output, form=Form.SYMBOL, symbols=stored.symbols), fills
            case _, BooleanType():
                output, fills = self._fixed(Op.BOOLEAN, 1, kind)
                return replace(output, form=Form.BOOLEAN), fills
            case "string", UUIDType():
                return self._fixed(Op.UUID_TEXT, 16, kind)
            case "fixed", DecimalType():
                return self._fixed(Op.DECIMAL_FIXED, 16, kind, stored.size)
            case "bytes", DecimalType():
                return self._fixed(Op.DECIMAL_BYTES, 16, kind)
            case "fixed", UUIDType() | FixedType():
                return self._fixed(Op.FIXED, stored.size, kind, stored.size)
            case _, FloatType():
                return self._fixed(Op.FOUR, 4, kind)
            case _, DoubleType():
                return self._fixed(Op.EIGHT, 8, kind)
            case _, IntegerType() | DateType():
                return self._fixed(Op.INT, 4, kind)
            case "bytes" | "string", _:
                return self._bytes(kind)
        unit = unit_in_micros(stored)
        output, fills = self._fixed(Op.LONG if unit == 1 else Op.SCALED, 8, kind, unit)
        return replace(output, form=Form.TIME) if isinstance(asked, TimeType) else output, fills

    def _fixed(self, op: Op, width: int, kind: Any, argument: int = 0) -> tuple[Output, _Fills]:
        slot = self._slot(Slot(width=width))
        self._emit(op, slot, argument)
        return Output(form=Form.FIXED, type=kind, slots=(slot,)), [[Op.FILL, slot, width, 0]]

    def _bytes(self, kind: Any) -> tuple[Output, _Fills]:
        data, ends = self._slot(Slot(width=1)), self._slot(Slot(width=4, ends=True))
        self._emit(Op.BYTES, data, ends)
        return Output(form=Form.BYTES, type=kind, slots=(data, ends)), [[Op.FILL_END, ends, 0, 0]]

    # Passing over.

    def _skip(self, kind: AvroType) -> None:
        width = self.widths.constant(kind)
        if width is not None:
            self._skip_run(Op.SKIP_BYTES, width)
            return
        match kind.kind:
            case "int" | "long" | "enum":
                self._skip_run(Op.SKIP_VARINTS, 1)
            case "string" | "bytes":
                self._emit(Op.SKIP_SIZED)
            case "array":
                self._skip_blocks(self._item_width(kind.inner[0]), kind.inner)
            case "map":
                self._skip_blocks(None, (AvroType(kind="string"), *kind.inner))
            case "union":
                self._skip_union(kind.inner)
            case "record" if kind in self._inlined:
                self._calls.append((self._emit(Op.CALL), kind))
            case _:
                self._inlined.add(kind)
                self._skip_fields(kind)

    def _skip_fields(self, record: AvroType) -> None:
        for each in record.fields:
            self._skip(each.type)

    def _skip_run(self, op: Op, amount: int) -> None:
        """Extend the operation before by the amount, if it is the same one and nothing jumps in between."""
        if not amount:
            return
        if len(self.operations) > self._fence and self.operations[-1][0] == op:
            self.operations[-1][2] += amount
        else:
            self._emit(op, argument=amount)

    def _skip_blocks(self, width: int | None, items: Sequence[AvroType]) -> None:
        block = self._emit(Op.SKIP_BLOCK, argument=ANY_WIDTH if width is None else width)
        self._label()
        if width is None:
            for item in items:
                self._skip(item)
            self._emit(Op.SKIP_NEXT, jump=block)
        self.operations[block][3] = self._here()

    def _item_width(self, item: AvroType) -> int | None:
        return VARINT_WIDTH if item.kind in _VARINTS else self.widths.constant(item)

    def _skip_union(self, branches: Sequence[AvroType]) -> None:
        nulls = [index for index, branch in enumerate(branches) if branch.kind == "null"]
        if len(branches) == 2 and len(nulls) == 1:
            option = self._emit(Op.SKIP_OPTION, argument=nulls[0])
            self._label()
            self._skip(branches[1 - nulls[0]])
            self.operations[option][3] = self._here()
            return
        self._emit(Op.SWITCH, argument=len(branches))
        entries = [self._emit(Op.JUMP) for _ in branches]
        leaving = []
        for entry, branch in zip(entries, branches, strict=True):
            self.operations[entry][3] = self._here()
            self._skip(branch)
            leaving.append(self._emit(Op.JUMP))
        for jump in leaving:
            self.operations[jump][3] = self._here()

    # Building.

    def _slot(self, slot: Slot) -> int:
        self.slots.append(slot)
        return len(self.slots) - 1

    def _emit(self, op: Op, slot: int = 0, argument: int = 0, jump: int = 0) -> int:
        return self._append([op, slot, argument, jump])

    def _append(self, operation: _Operation) -> int:
        self.operations.append(operation)
        self.columns.append(self._column)
        return len(self.operations) - 1

    def _label(self) -> None:
        """Something jumps to the next operation, so that it cannot become a part of the one before."""
        self._fence = len(self.operations)

    def _here(self) -> int:
        self._label()
        return len(self.operations)


def _wanted(columns: Sequence[Column], asked: Sequence[NestedField], path: str) -> dict[str, NestedField]:
    """The fields that are asked for by their names, all of which must be among the columns."""
    names = [column.field.name for column in columns]
    for each in asked:
        if each.name not in names:
            raise ColumnNotFoundError(path + each.name, [path + known for known in names])
    return {each.name: each for each in asked}
