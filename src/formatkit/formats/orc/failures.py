"""What pyarrow and the readers of the metadata say about unusable bytes, as errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from formatkit.batches.arrow.rechunking import is_overflow
from formatkit.errors import CorruptFileError, FormatkitError, UnsupportedError, machine_errors
from formatkit.formats.orc.compression import CompressionError
from formatkit.formats.orc.protobuf import ProtobufError

__all__ = ["ContentError", "corrupt", "reading"]


class ContentError(ValueError):
    """A column holds a value that its type cannot hold."""


def corrupt(location: str, what: str) -> CorruptFileError:
    """The error for a file that contradicts itself."""
    return CorruptFileError(f"{location}: is a corrupt ORC file: {what}", location=location)


@contextmanager
def reading(location: str) -> Iterator[None]:
    """Turn the errors of decoders inside the block into errors of this package."""
    try:
        with machine_errors(location):
            yield
    except (FormatkitError, pa.ArrowCancelled):
        raise
    except (ProtobufError, CompressionError, ContentError, EOFError) as error:
        raise corrupt(location, str(error)) from error
    except pa.ArrowException as error:
        if isinstance(error, pa.ArrowNotImplementedError) or is_overflow(error):
            raise UnsupportedError(f"{location}: cannot be decoded: {error}", location=location) from error
        raise corrupt(location, str(error)) from error
    except OSError as error:
        # A failure of the storage has a number; pyarrow reports broken streams without one.
        if error.errno is not None:
            raise
        raise corrupt(location, str(error)) from error
