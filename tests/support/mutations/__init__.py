"""Structures of files taken apart into trees, changed at one place, and put together again."""
