"""What became of a commit that ended with an error.

Deleting files that a snapshot refers to destroys data, and keeping files to which none refers only costs room. So a
commit counts as refused only where that is certain.
"""

from __future__ import annotations

import requests
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    UnauthorizedError,
)
from pyiceberg.table import Table

__all__ = ["newest_state", "was_refused"]

# The catalog looked at the request and said no.
_REFUSALS = (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    UnauthorizedError,
)
# Something failed before the catalog was asked, such as writing the metadata file. The catalog's state confirms it.
_LOCAL_FAILURES = (NotImplementedError, OSError, TypeError, ValueError)
# The request may still be under way.
_LOST_ANSWERS = (ConnectionError, TimeoutError, requests.RequestException)


def newest_state(table: Table) -> Table | None:
    """The table as the catalog shows it now; None if the catalog does not answer."""
    try:
        return table.catalog.load_table(table.name())
    except Exception:  # noqa: BLE001 - each catalog fails in its own way
        return None


def was_refused(error: Exception, *, answered: bool) -> bool:
    """Whether a commit certainly did not take place.

    Args:
        error: What the attempt ended with.
        answered: Whether the catalog has shown a state without the snapshot since.
    """
    if isinstance(error, _REFUSALS):
        return True
    if not answered or isinstance(error, _LOST_ANSWERS):
        return False
    # Errors of the database behind a SQL catalog end the transaction.
    return isinstance(error, _LOCAL_FAILURES) or type(error).__module__.partition(".")[0] == "sqlalchemy"
