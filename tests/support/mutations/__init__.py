"""Copies of files that differ from good ones in one place that the format's structure gives a meaning."""
