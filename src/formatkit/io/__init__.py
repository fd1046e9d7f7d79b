"""Where bytes come from and go to: local files, memory, and everything that pyiceberg's `FileIO` reaches."""

from formatkit.io.fileio import FileIOSink, FileIOSource
from formatkit.io.local import LocalSink, LocalSource
from formatkit.io.locations import InputLocation, OutputLocation, local_path, open_sink, open_source
from formatkit.io.memory import MemorySink, MemorySource

__all__ = [
    "FileIOSink",
    "FileIOSource",
    "InputLocation",
    "LocalSink",
    "LocalSource",
    "MemorySink",
    "MemorySource",
    "OutputLocation",
    "local_path",
    "open_sink",
    "open_source",
]
