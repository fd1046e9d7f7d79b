"""The read property `read.verify-skipping`: what a scan skips is read as well, and must have no matching row.

Statistics can be wrong and still be possible: bounds that are too narrow, a bloom filter of other values, a count that
is off by one. A reader cannot notice that while it skips. With this property each file is read a second time, with the
whole filter, all delete files and without statistics, and both reads must find the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from formatkit.errors import ConfigurationError

__all__ = ["VERIFY_SKIPPING", "verifies_skipping"]

VERIFY_SKIPPING = "read.verify-skipping"
_VALUES = {"true": True, "false": False}


def verifies_skipping(properties: Mapping[str, str]) -> bool:
    """Whether the property is set.

    Raises:
        ConfigurationError: Its value is neither true nor false.
    """
    text = properties.get(VERIFY_SKIPPING)
    if text is None:
        return False
    value = _VALUES.get(str(text).strip().lower())
    if value is None:
        raise ConfigurationError(f"property {VERIFY_SKIPPING!r} must be true or false, not {text!r}")
    return value
