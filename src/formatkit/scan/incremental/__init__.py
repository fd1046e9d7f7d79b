"""Rows that snapshots added to a table: which snapshots, and which files of them."""
