"""The command `formatkit`."""

from formatkit.cli.app import main

__all__ = ["main"]
