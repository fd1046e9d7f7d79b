"""io_uring for local files, by raw system calls: all ranges of a request in one submission, filled in place."""

from formatkit.io.uring.availability import Availability, availability
from formatkit.io.uring.conditions import ReadConditions, etag_of
from formatkit.io.uring.files import UringFile
from formatkit.io.uring.reader import UringReader

__all__ = ["Availability", "ReadConditions", "UringFile", "UringReader", "availability", "etag_of"]
