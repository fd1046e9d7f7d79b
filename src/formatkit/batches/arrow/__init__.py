"""Arrow as the batch type: `ArrowBatch` is the `DataBatch` that formatkit ships."""

from formatkit.batches.arrow.batch import ArrowBatch
from formatkit.batches.arrow.constants import column_of
from formatkit.batches.arrow.types import arrow_field, arrow_schema, arrow_type

__all__ = ["ArrowBatch", "arrow_field", "arrow_schema", "arrow_type", "column_of"]
