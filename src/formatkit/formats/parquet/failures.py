"""What pyarrow says about unusable bytes, as errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from formatkit.batches.arrow.rechunking import is_overflow
from formatkit.errors import ConfigurationError, CorruptFileError, FormatkitError, UnsupportedError, machine_errors

__all__ = ["corrupt", "no_key", "reading"]


def corrupt(location: str, what: str) -> CorruptFileError:
    """The error for a file that contradicts itself."""
    return CorruptFileError(f"{location}: is a corrupt Parquet file: {what}", location=location)


def no_key(location: str) -> ConfigurationError:
    """The error for columns that cannot be decrypted."""
    message = f"{location}: has encrypted columns; its key is needed to read them (OpenOptions.encryption)"
    return ConfigurationError(message, location=location)


@contextmanager
def reading(location: str) -> Iterator[None]:
    """Turn pyarrow's errors inside the block into errors of this package."""
    try:
        with machine_errors(location):
            yield
    except (FormatkitError, pa.ArrowCancelled):
        raise
    except pa.ArrowException as error:
        if isinstance(error, pa.ArrowNotImplementedError) or is_overflow(error):
            raise UnsupportedError(f"{location}: cannot be decoded: {error}", location=location) from error
        raise corrupt(location, str(error)) from error
    except OSError as error:
        # A failure of the storage has a number; pyarrow reports broken pages without one.
        if error.errno is not None:
            raise
        if "no file decryptor" in str(error):
            raise no_key(location) from error
        if "LZO compression" in str(error):
            message = f"{location}: cannot be decoded: its pages are compressed by LZO, for which there is no decoder"
            raise UnsupportedError(message, location=location) from error
        raise corrupt(location, str(error)) from error
