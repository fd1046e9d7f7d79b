"""Everything that the author of a format or of a batch type must read, and nothing else."""

from formatkit.contract.batch import DataBatch, InjectedColumn, Step
from formatkit.contract.capability import Capability
from formatkit.contract.format import FormatFile, FormatFileWriter, FormatPlugin, FormatReader, FormatWriter
from formatkit.contract.metadata_columns import METADATA_COLUMNS, POS
from formatkit.contract.metrics import ColumnMetrics, FileMetrics, MetricsCollector, MetricsKind, MetricsMode
from formatkit.contract.options import DEFAULT_BATCH_ROWS, Encryption, OpenOptions, ReadOptions, Split, WriteOptions
from formatkit.contract.pruning import ChunkStatistics, Gate, Match, match
from formatkit.contract.results import BatchStream, ReadResult, WriteResult
from formatkit.contract.schema_json import schema_from_json, schema_to_json
from formatkit.contract.storage import ByteRange, ByteSink, ByteSource, SinkStream
from formatkit.contract.variant import Variant, VariantType

__all__ = [
    "DEFAULT_BATCH_ROWS",
    "METADATA_COLUMNS",
    "POS",
    "BatchStream",
    "ByteRange",
    "ByteSink",
    "ByteSource",
    "Capability",
    "ChunkStatistics",
    "ColumnMetrics",
    "DataBatch",
    "Encryption",
    "FileMetrics",
    "FormatFile",
    "FormatFileWriter",
    "FormatPlugin",
    "FormatReader",
    "FormatWriter",
    "Gate",
    "InjectedColumn",
    "Match",
    "MetricsCollector",
    "MetricsKind",
    "MetricsMode",
    "OpenOptions",
    "ReadOptions",
    "ReadResult",
    "SinkStream",
    "Split",
    "Step",
    "Variant",
    "VariantType",
    "WriteOptions",
    "WriteResult",
    "match",
    "schema_from_json",
    "schema_to_json",
]
