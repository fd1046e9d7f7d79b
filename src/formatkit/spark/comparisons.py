"""SQL's comparisons as filters of Iceberg, by the name of Spark's filter and by whether it is negated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

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
    LiteralPredicate,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    Reference,
    StartsWith,
)
from pyiceberg.expressions.literals import DoubleLiteral

__all__ = ["ALWAYS", "FLOATING", "NEVER", "ORDERED", "UNKNOWN", "Translated", "all_of", "any_of"]

ALL: BooleanExpression = AlwaysTrue()
NONE: BooleanExpression = AlwaysFalse()


@dataclass(frozen=True)
class Translated:
    """What became of a filter.

    Attributes:
        keep: Is true for every row that Spark would keep.
        exact: Whether it is true for those only.
    """

    keep: BooleanExpression
    exact: bool


UNKNOWN = Translated(ALL, exact=False)
NEVER = Translated(NONE, exact=True)
ALWAYS = Translated(ALL, exact=True)


def all_of(parts: Iterable[Translated]) -> Translated:
    """What all parts keep."""
    keep, exact = ALL, True
    for part in parts:
        keep, exact = And(keep, part.keep), exact and part.exact
    return Translated(keep, exact)


def any_of(parts: Iterable[Translated]) -> Translated:
    """What any part keeps."""
    keep, exact = NONE, True
    for part in parts:
        keep, exact = Or(keep, part.keep), exact and part.exact
    return Translated(keep, exact)


_Values = Sequence[Any]
_Test = Callable[[Reference, _Values], Translated]


def _strict(test: Callable[[Reference, Any], BooleanExpression]) -> _Test:
    """A comparison that is unknown when it is made with null, as all of SQL's are but one."""

    def compare(column: Reference, values: _Values) -> Translated:
        (value,) = values
        return NEVER if value is None else Translated(test(column, value), exact=True)

    return compare


def _test(kind: type[LiteralPredicate]) -> Callable[[Reference, Any], BooleanExpression]:
    return lambda column, value: kind(term=column, value=value)


def _known(test: BooleanExpression, column: Reference) -> BooleanExpression:
    return And(NotNull(term=column), test)


def _null_safe(equal: Callable[[Reference, Any], BooleanExpression]) -> _Test:
    def compare(column: Reference, values: _Values) -> Translated:
        (value,) = values
        return Translated(IsNull(term=column) if value is None else equal(column, value), exact=True)

    return compare


def _null_safe_not(unequal: Callable[[Reference, Any], BooleanExpression]) -> _Test:
    def compare(column: Reference, values: _Values) -> Translated:
        (value,) = values
        return Translated(
            NotNull(term=column) if value is None else Or(IsNull(term=column), unequal(column, value)), exact=True
        )

    return compare


def _in(column: Reference, values: _Values) -> Translated:
    known = {value for value in values if value is not None}
    if not values:
        return UNKNOWN
    return Translated(In(term=column, values=known), exact=True) if known else NEVER


def _not_in(column: Reference, values: _Values) -> Translated:
    if not values:
        return UNKNOWN
    if None in values:
        return NEVER  # whatever is not in the list may be equal to the null
    known = {value for value in values if value is not None}
    return Translated(_known(NotIn(term=column, values=known), column), exact=True)


ORDERED: dict[tuple[str, bool], _Test] = {
    ("EqualTo", False): _strict(_test(EqualTo)),
    ("EqualTo", True): _strict(lambda column, value: _known(NotEqualTo(term=column, value=value), column)),
    ("EqualNullSafe", False): _null_safe(_test(EqualTo)),
    ("EqualNullSafe", True): _null_safe_not(_test(NotEqualTo)),
    ("LessThan", False): _strict(_test(LessThan)),
    ("LessThan", True): _strict(_test(GreaterThanOrEqual)),
    ("LessThanOrEqual", False): _strict(_test(LessThanOrEqual)),
    ("LessThanOrEqual", True): _strict(_test(GreaterThan)),
    ("GreaterThan", False): _strict(_test(GreaterThan)),
    ("GreaterThan", True): _strict(_test(LessThanOrEqual)),
    ("GreaterThanOrEqual", False): _strict(_test(GreaterThanOrEqual)),
    ("GreaterThanOrEqual", True): _strict(_test(LessThan)),
    ("In", False): _in,
    ("In", True): _not_in,
    ("StringStartsWith", False): _strict(_test(StartsWith)),
    ("StringStartsWith", True): _strict(lambda column, value: _known(NotStartsWith(term=column, value=value), column)),
}


# To Spark NaN equals NaN and is greater than every other number; to Iceberg it compares with nothing.


def _equal(column: Reference, value: float) -> BooleanExpression:
    return IsNaN(term=column) if math.isnan(value) else EqualTo(term=column, value=DoubleLiteral(value))


def _unequal(column: Reference, value: float) -> BooleanExpression:
    other = NotNaN(term=column) if math.isnan(value) else NotEqualTo(term=column, value=DoubleLiteral(value))
    return _known(other, column)


def _less(column: Reference, value: float) -> BooleanExpression:
    return (
        _known(NotNaN(term=column), column) if math.isnan(value) else LessThan(term=column, value=DoubleLiteral(value))
    )


def _at_most(column: Reference, value: float) -> BooleanExpression:
    return NotNull(term=column) if math.isnan(value) else LessThanOrEqual(term=column, value=DoubleLiteral(value))


def _greater(column: Reference, value: float) -> BooleanExpression:
    return NONE if math.isnan(value) else Or(IsNaN(term=column), GreaterThan(term=column, value=DoubleLiteral(value)))


def _at_least(column: Reference, value: float) -> BooleanExpression:
    return (
        IsNaN(term=column)
        if math.isnan(value)
        else Or(IsNaN(term=column), GreaterThanOrEqual(term=column, value=DoubleLiteral(value)))
    )


def _in_numbers(column: Reference, values: _Values) -> Translated:
    numbers = [value for value in values if value is not None]
    if not values:
        return UNKNOWN
    found = any_of(Translated(_equal(column, value), exact=True) for value in numbers)
    # Long lists are sets to Spark, in which -0.0 and 0.0 are two numbers: it decides which of them were meant.
    return Translated(found.keep, exact=not any(value == 0 for value in numbers))


def _not_in_numbers(column: Reference, values: _Values) -> Translated:
    if not values:
        return UNKNOWN
    if None in values:
        return NEVER
    numbers = [value for value in values if value is not None]
    if any(value == 0 for value in numbers):
        return UNKNOWN
    return all_of(Translated(_unequal(column, value), exact=True) for value in numbers)


FLOATING: dict[tuple[str, bool], _Test] = {
    ("EqualTo", False): _strict(_equal),
    ("EqualTo", True): _strict(_unequal),
    ("EqualNullSafe", False): _null_safe(_equal),
    ("EqualNullSafe", True): _null_safe_not(_unequal),
    ("LessThan", False): _strict(_less),
    ("LessThan", True): _strict(_at_least),
    ("LessThanOrEqual", False): _strict(_at_most),
    ("LessThanOrEqual", True): _strict(_greater),
    ("GreaterThan", False): _strict(_greater),
    ("GreaterThan", True): _strict(_at_most),
    ("GreaterThanOrEqual", False): _strict(_at_least),
    ("GreaterThanOrEqual", True): _strict(_less),
    ("In", False): _in_numbers,
    ("In", True): _not_in_numbers,
}
