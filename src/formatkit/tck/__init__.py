"""What a format is proved with: a naive row-by-row truth, and strategies that make schemas, rows and predicates.

Nothing here is shared with the code that it judges: truth is computed one row at a time in plain Python.
"""
