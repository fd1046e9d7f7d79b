"""The parts of ORC files that say how the rest is stored."""
