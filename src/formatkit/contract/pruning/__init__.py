"""Skipping by statistics: what can be believed of them (`gate`), and what follows from it (`evaluator`)."""

from formatkit.contract.pruning.evaluator import ChunkStatistics, Match, compile_match, match
from formatkit.contract.pruning.gate import NOTHING, ColumnGate, Gate, Hint, count_dropped

__all__ = [
    "NOTHING",
    "ChunkStatistics",
    "ColumnGate",
    "Gate",
    "Hint",
    "Match",
    "compile_match",
    "count_dropped",
    "match",
]
