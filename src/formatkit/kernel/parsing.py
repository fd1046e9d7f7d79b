"""Parses filters that are text, in the language of pyiceberg's parser.

pyiceberg's own parser recurses: it needs minutes and gigabytes for a filter of a megabyte, ends in `RecursionError` at
some dozens of parentheses, and backtracks exponentially over backslashes in a quoted name. This one reads each
character a bounded number of times, keeps its place in a list, and builds the same expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    Or,
    Reference,
    StartsWith,
)
from pyiceberg.expressions.literals import BooleanLiteral, DecimalLiteral, Literal, LongLiteral, StringLiteral

from formatkit.errors import InvalidPredicateError
from formatkit.kernel.predicates import MANY_CONDITIONS, MAX_CONDITIONS, ColumnComparison, Operator

__all__ = ["parse", "parse_value", "too_many_conditions"]

_MAX_CHARACTERS = 4 << 20
_MAX_OPEN_PARENTHESES = 1_000
_MAX_CACHED_CHARACTERS = 4 << 10
_MAX_SHOWN_CHARACTERS = 200

_SPACE = re.compile(r"[ \n\t\r]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_QUOTED_NAME = re.compile(r'"[^"\n\r]*"')
_TEXT = re.compile(r"'(?:[^'\n\r\\]++|''|\\(?:[^x]|x[0-9a-fA-F]++))*+'")
_DECIMAL = re.compile(r"[+-]?(?:\d++\.\d*|\.\d+)")
_INTEGER = re.compile(r"[+-]?\d+")
_BOOLEAN = re.compile("true|false", re.IGNORECASE)
_OPERATOR = re.compile("<=|<>|<|>=|>|==|=|!=")
_WILDCARD = re.compile(r"(?<!\\)%")
_WORD_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$")

_COMPARISONS: dict[str, type[Any]] = {
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
    "=": EqualTo,
    "==": EqualTo,
    "!=": NotEqualTo,
    "<>": NotEqualTo,
}
_OPERATORS: dict[str, Operator] = {
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<>": "!=",
}
# `1 < a` is `a > 1`.
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LITERALS: tuple[tuple[re.Pattern[str], Callable[[str], Literal[Any]]], ...] = (
    (_TEXT, lambda text: StringLiteral(text[1:-1].replace("''", "'"))),
    (_DECIMAL, lambda text: DecimalLiteral(Decimal(text))),
    (_INTEGER, lambda text: LongLiteral(int(text))),
    (_BOOLEAN, lambda text: BooleanLiteral(text[0] in "tT")),
)


def parse(text: str, *, compare_columns: bool = False) -> BooleanExpression:
    """The expression that a text means.

    Args:
        text: A filter.
        compare_columns: Whether a column may be compared with a column (``a < b``), which scans cannot do.

    Raises:
        InvalidPredicateError: The text is no filter, or is longer or nested deeper than any filter that makes sense.
    """
    _check_length(text)
    # Services repeat themselves. Long texts are rare, and what they mean takes much memory.
    if len(text) <= _MAX_CACHED_CHARACTERS:
        return _parse_again(text, compare_columns)
    return _Parser(text, compare_columns=compare_columns).expression()


@lru_cache(maxsize=256)
def _parse_again(text: str, compare_columns: bool) -> BooleanExpression:
    return _Parser(text, compare_columns=compare_columns).expression()


def parse_value(text: str) -> Reference | Literal[Any]:
    """What stands on one side of a comparison: the name of a column or a literal.

    Raises:
        InvalidPredicateError: The text is neither.
    """
    _check_length(text)
    return _Parser(text).value()


def _check_length(text: str) -> None:
    if len(text) > _MAX_CHARACTERS:
        raise InvalidPredicateError(
            f"the filter has {len(text):,} characters, and at most {_MAX_CHARACTERS:,} are read; put the values into a "
            "table and join it, or filter in several steps"
        )


def too_many_conditions() -> InvalidPredicateError:
    """For whoever counts the conditions of a filter."""
    return InvalidPredicateError(
        f"the filter has more than {MAX_CONDITIONS:,} conditions; compare a column with many values by `in (…)`, or "
        "put the values into a table and join it"
    )


class _Comparison(NamedTuple):
    """A comparison that is no expression yet, because making one takes longer than parsing it."""

    kind: type[Any]
    column: str
    literal: Literal[Any]


class _Parser:
    """Reads a text from left to right. Methods that find nothing return None and stay where they are."""

    def __init__(self, text: str, *, compare_columns: bool = False) -> None:
        self._text = text.expandtabs()  # as pyiceberg's parser does
        self._compare_columns = compare_columns
        self._at = 0
        self._furthest = 0
        self._conditions = 0

    def expression(self) -> BooleanExpression:
        """The whole text."""
        outer: list[tuple[list[Any], list[Any], int]] = []
        alternatives: list[Any] = []
        conditions: list[Any] = []
        while True:
            negations = self._negations()
            if self._symbol("("):
                if len(outer) == _MAX_OPEN_PARENTHESES:
                    raise self._refused(f"more than {_MAX_OPEN_PARENTHESES:,} parentheses are open")
                outer.append((alternatives, conditions, negations))
                alternatives, conditions = [], []
                continue
            operand: Any = self._predicate()
            while True:
                conditions.append(self._negated(operand, negations))
                if self._word("AND"):
                    break
                alternatives.append(self._combined(And, conditions))
                conditions = []
                if self._word("OR"):
                    break
                operand = self._combined(Or, alternatives)
                if not outer:
                    return self._whole(operand)
                if not self._symbol(")"):
                    raise self._unexpected()
                alternatives, conditions, negations = outer.pop()

    def value(self) -> Reference | Literal[Any]:
        """The whole text, if it is one column or one literal."""
        literal = self._literal()
        self._space()
        if literal is not None and self._at == len(self._text):
            return literal
        self._at = 0
        column = self._column()
        self._space()
        if column is not None and self._at == len(self._text):
            return Reference(column)
        raise self._refused("expected a column such as `source.a`, or a literal such as `1`, `true` or `'text'`")

    def _whole(self, found: Any) -> BooleanExpression:
        self._space()
        if self._at < len(self._text):
            raise self._unexpected()
        if isinstance(found, BooleanLiteral):
            return AlwaysTrue() if found.value else AlwaysFalse()
        return self._expression(found)

    def _negations(self) -> int:
        count = 0
        while self._word("NOT"):
            count += 1
        return count

    def _negated(self, operand: Any, times: int) -> Any:
        if times and isinstance(operand, BooleanLiteral):
            raise self._refused("true and false can only stand alone")
        return Not(self._expression(operand)) if times % 2 else operand

    def _combined(self, kind: type[And] | type[Or], parts: list[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        if any(isinstance(part, BooleanLiteral) for part in parts):
            raise self._refused("true and false can only stand alone")
        if len(parts) >= MANY_CONDITIONS:
            parts = self._merged(kind, parts)
        return kind(*map(self._expression, parts)) if len(parts) > 1 else parts[0]

    def _merged(self, kind: type[And] | type[Or], parts: list[Any]) -> list[Any]:
        """Put many comparisons of one column with ``=`` or ``!=`` together."""
        single = EqualTo if kind is Or else NotEqualTo
        groups: dict[str, list[Literal[Any]]] = {}
        for part in parts:
            if isinstance(part, _Comparison) and part.kind is single:
                groups.setdefault(part.column, []).append(part.literal)
        merged = {name: group for name, group in groups.items() if len(group) >= MANY_CONDITIONS}
        kept = [
            part
            for part in parts
            if not (isinstance(part, _Comparison) and part.kind is single and part.column in merged)
        ]
        several: type[Any] = In if kind is Or else NotIn
        return [*(several(Reference(name), group) for name, group in merged.items()), *kept]

    def _expression(self, part: Any) -> BooleanExpression:
        if isinstance(part, _Comparison):
            self._counted()
            part = part.kind(Reference(part.column), part.literal)
        expression: BooleanExpression = part
        return expression

    def _counted(self) -> None:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise too_many_conditions()

    def _predicate(self) -> Any:
        self._space()
        start = self._at
        column = self._column()
        if column is not None:
            found = self._about(column)
            if found is not None:
                return found
            self._at = start
        literal = self._literal()
        if literal is not None:
            after = self._at
            operator = self._matched(_OPERATOR)
            if operator is not None and (column := self._column()) is not None:
                return _Comparison(_COMPARISONS[_MIRRORED.get(operator, operator)], column, literal)
            self._at = after
            if isinstance(literal, BooleanLiteral):
                return literal
        raise self._unexpected()

    def _about(self, column: str) -> BooleanExpression | _Comparison | None:
        """What follows the name of a column."""
        operator = self._matched(_OPERATOR)
        if operator is not None:
            literal = self._literal()
            if literal is not None:
                return _Comparison(_COMPARISONS[operator], column, literal)
            other = self._column() if self._compare_columns else None
            if other is None:
                return None
            self._counted()
            return ColumnComparison(operator=_OPERATORS[operator], left=column, right=other)
        self._counted()
        return self._other(Reference(column))

    def _other(self, column: Reference) -> BooleanExpression | None:
        if self._word("IS"):
            return self._null_or_nan(column)
        if self._word("BETWEEN"):
            return self._between(column)
        negated = self._word("NOT")
        if self._word("IN"):
            literals = self._literals()
            kind: type[Any] = NotIn if negated else In
            return None if literals is None else kind(column, literals)
        if self._word("LIKE"):
            pattern = self._matched(_TEXT)
            if pattern is None:
                return None
            found = self._like(column, pattern[1:-1].replace("''", "'"))
            return ~found if negated else found
        return None

    def _null_or_nan(self, column: Reference) -> BooleanExpression | None:
        negated = self._word("NOT")
        if self._word("NULL"):
            return NotNull(term=column) if negated else IsNull(term=column)
        if self._word("NAN"):
            return NotNaN(term=column) if negated else IsNaN(term=column)
        return None

    def _between(self, column: Reference) -> BooleanExpression | None:
        low = self._literal()
        if low is None or not self._word("AND"):
            return None
        high = self._literal()
        if high is None:
            return None
        return And(GreaterThanOrEqual(term=column, value=low), LessThanOrEqual(term=column, value=high))

    def _like(self, column: Reference, pattern: str) -> BooleanExpression:
        wildcard = _WILDCARD.search(pattern)
        if wildcard is None:
            return EqualTo(term=column, value=StringLiteral(pattern.replace("\\%", "%")))
        if pattern[wildcard.end() :] not in ("", "\n"):
            raise self._refused("LIKE takes the wildcard % at the end of the text only")
        return StartsWith(term=column, value=StringLiteral(pattern[:-1].replace("\\%", "%")))

    def _literals(self) -> list[Literal[Any]] | None:
        """Literals of one kind, in parentheses."""
        if not self._symbol("("):
            return None
        for pattern, made in _LITERALS:
            text = self._matched(pattern)
            if text is not None:
                found = [self._made(made, text)]
                while self._symbol(",") and (text := self._matched(pattern)) is not None:
                    found.append(self._made(made, text))
                return found if self._symbol(")") else None
        return None

    def _literal(self) -> Literal[Any] | None:
        for pattern, made in _LITERALS:
            text = self._matched(pattern)
            if text is not None:
                return self._made(made, text)
        return None

    def _made(self, make: Callable[[str], Literal[Any]], text: str) -> Literal[Any]:
        try:
            return make(text)
        except (ArithmeticError, ValueError) as error:
            raise self._refused(str(error)) from error

    def _column(self) -> str | None:
        name = self._name()
        if name is None:
            return None
        parts = [name]
        while True:
            after = self._at
            if not self._symbol(".") or (name := self._name()) is None:
                self._at = after
                return ".".join(parts)
            parts.append(name)

    def _name(self) -> str | None:
        name = self._matched(_NAME)
        if name is not None:
            return name
        before = self._at
        quoted = self._matched(_QUOTED_NAME)
        if quoted is None:
            return None
        unquoted = _escaped_name(quoted) if "\\" in quoted else quoted[1:-1]
        if "." in unquoted:
            self._at = before
            return None
        return unquoted

    def _word(self, word: str) -> bool:
        """Whether a keyword comes next, which is skipped then."""
        self._space()
        text, start, end = self._text, self._at, self._at + len(word)
        if text[start:end].upper() != word:
            return False
        if start and text[start - 1].upper() in _WORD_CHARACTERS:
            return False
        if end < len(text) and text[end].upper() in _WORD_CHARACTERS:
            return False
        self._moved(end)
        return True

    def _symbol(self, symbol: str) -> bool:
        self._space()
        if not self._text.startswith(symbol, self._at):
            return False
        self._moved(self._at + len(symbol))
        return True

    def _matched(self, pattern: re.Pattern[str]) -> str | None:
        self._space()
        found = pattern.match(self._text, self._at)
        if found is None:
            return None
        self._moved(found.end())
        return found[0]

    def _space(self) -> None:
        found = _SPACE.match(self._text, self._at)
        if found is not None:
            self._at = found.end()

    def _moved(self, to: int) -> None:
        self._at = to
        self._furthest = max(self._furthest, to)

    def _unexpected(self) -> InvalidPredicateError:
        at = self._furthest
        marked = f"{self._text[max(at - _MAX_SHOWN_CHARACTERS, 0) : at]} >>> {self._text[at:][:_MAX_SHOWN_CHARACTERS]}"
        return InvalidPredicateError(
            f"cannot parse the filter {self._shown()!r}: stopped at {marked!r}; expected a comparison such as "
            "`a = 1`, `b in ('x', 'y')`, `c is not null`, `d like 'x%'`, combined with and, or, not",
            text=self._text,
            position=at,
        )

    def _refused(self, reason: str) -> InvalidPredicateError:
        return InvalidPredicateError(f"cannot parse the filter {self._shown()!r}: {reason}", text=self._text)

    def _shown(self) -> str:
        cut = len(self._text) > _MAX_SHOWN_CHARACTERS
        return f"{self._text[:_MAX_SHOWN_CHARACTERS]}…" if cut else self._text


def _escaped_name(quoted: str) -> str:
    """A quoted name with backslashes, which pyiceberg's parser has rules of its own for."""
    from pyiceberg.expressions.parser import quoted_identifier
    from pyparsing import ParseBaseException

    try:
        found: str = quoted_identifier.parse_string(quoted)[0]
    except ParseBaseException:
        return "."
    return found
