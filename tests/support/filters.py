"""pyiceberg's unbound predicates as they are called: with a name and a literal. Their own annotations say otherwise."""

from __future__ import annotations

from typing import Any

from pyiceberg import expressions

__all__ = [
    "EqualTo",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "IsNaN",
    "IsNull",
    "LessThan",
    "LessThanOrEqual",
    "NotEqualTo",
    "NotIn",
    "NotNaN",
    "NotNull",
    "NotStartsWith",
    "StartsWith",
]

EqualTo: Any = expressions.EqualTo
NotEqualTo: Any = expressions.NotEqualTo
LessThan: Any = expressions.LessThan
LessThanOrEqual: Any = expressions.LessThanOrEqual
GreaterThan: Any = expressions.GreaterThan
GreaterThanOrEqual: Any = expressions.GreaterThanOrEqual
In: Any = expressions.In
NotIn: Any = expressions.NotIn
StartsWith: Any = expressions.StartsWith
NotStartsWith: Any = expressions.NotStartsWith
IsNull: Any = expressions.IsNull
NotNull: Any = expressions.NotNull
IsNaN: Any = expressions.IsNaN
NotNaN: Any = expressions.NotNaN
