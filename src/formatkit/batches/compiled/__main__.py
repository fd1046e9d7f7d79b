"""Build the images of packages of kernels beside their sources: `python -m formatkit.batches.compiled PACKAGE…`."""

from __future__ import annotations

import sys

from formatkit.batches.compiled.loading import kernels

if __name__ == "__main__":
    for package in sys.argv[1:]:
        kernels(package)
