"""Hostile files, made of sound ones by somebody who knows their structure.

Modules named after a file take it apart into a tree, change it at one place and put it together again. `avro`, `jsons`,
`parquet` and `puffin` have `mutants(data, random)`: files without end, each made of `data` by one or two changes.
"""
