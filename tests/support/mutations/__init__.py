"""Hostile files, made of sound ones by somebody who knows their structure.

Each module has `mutants(data, random)`: files without end, each made of `data` by one or two changes.
"""
