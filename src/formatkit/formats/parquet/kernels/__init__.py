"""Compiled code that finds and decodes the pages of flat columns."""
