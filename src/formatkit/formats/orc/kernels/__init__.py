"""Compiled code that decodes the streams of flat columns."""
