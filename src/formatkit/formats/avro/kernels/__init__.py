"""Compiled code that decodes and encodes rows, and the numbers that it and programs agree on."""
