"""Build the image of a package of kernels, and print where it is: `python -m formatkit.batches.compiled PACKAGE`."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

from formatkit.batches.compiled.images import image_places
from formatkit.batches.compiled.loading import kernels

if __name__ == "__main__":
    package = sys.argv[1]
    kernels(package)
    places = image_places(Path(str(files(package))))
    sys.stdout.writelines(f"{place}\n" for place in places if place.is_file())
