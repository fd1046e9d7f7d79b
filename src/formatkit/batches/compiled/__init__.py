"""Code that is compiled: how it is written, built into images, and loaded."""
