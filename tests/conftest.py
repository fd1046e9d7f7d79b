"""Settings of the whole test run."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from formatkit.batches.compiled.loading import kernels

# A test that needs more examples than others multiplies `settings.default.max_examples`, so that it scales with the
# profile. Slow first examples (imports, compiled plans) are no sign of a bad strategy here.
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("dev", COMMON, max_examples=30)
settings.register_profile("ci", COMMON, max_examples=100, derandomize=True, database=None)
settings.register_profile("fuzz", COMMON, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile kernels that were changed, once: tests would do without them until it pays."""
    if not hasattr(session.config, "workerinput"):
        for package in (f"formatkit.formats.{name}.kernels" for name in ("avro", "orc", "parquet")):
            kernels(package)
