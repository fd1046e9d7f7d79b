"""Vortex files for Arrow batches."""
