"""Where bytes come from and go to: local files, memory, and everything that pyiceberg's `FileIO` reaches."""

from formatkit.io.fileio import FileIOSink, FileIOSource
from formatkit.io.local import LocalSink, LocalSource
from formatkit.io.locations import InputLocation, OutputLocation, local_path, open_sink, open_source
from formatkit.io.memory import MemorySink, MemorySource
from formatkit.io.retry import RetryPolicy
from formatkit.io.routed_fileio import RuntimeFileIO
from formatkit.io.routed_sink import RoutedSink
from formatkit.io.runtime import IoRuntime, current_runtime, default_runtime, with_runtime
from formatkit.io.usage import IoUsage, UsageFigures

__all__ = [
    "FileIOSink",
    "FileIOSource",
    "InputLocation",
    "IoRuntime",
    "IoUsage",
    "LocalSink",
    "LocalSource",
    "MemorySink",
    "MemorySource",
    "OutputLocation",
    "RetryPolicy",
    "RoutedSink",
    "RuntimeFileIO",
    "UsageFigures",
    "current_runtime",
    "default_runtime",
    "local_path",
    "open_sink",
    "open_source",
    "with_runtime",
]
