"""Polars as the batch type: `PolarsBatch` is its `DataBatch`. Needs the extra ``polars``."""

from formatkit.batches.polars.batch import PolarsBatch
from formatkit.batches.polars.constants import series_of
from formatkit.batches.polars.types import polars_schema, polars_type

__all__ = ["PolarsBatch", "polars_schema", "polars_type", "series_of"]
