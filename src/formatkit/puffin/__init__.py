"""Puffin files and the deletion vectors in them."""

from formatkit.puffin.deletion_vector import DeletionVector, read_deletion_vector
from formatkit.puffin.footer import BlobMetadata, Footer, read_footer
from formatkit.puffin.row_positions import row_positions
from formatkit.puffin.writer import PuffinWriter

__all__ = [
    "BlobMetadata",
    "DeletionVector",
    "Footer",
    "PuffinWriter",
    "read_deletion_vector",
    "read_footer",
    "row_positions",
]
