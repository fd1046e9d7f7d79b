"""The checks, by subject. A module that is put here is found by itself."""
