"""From one file, as it is, to rows as the table sees them. Knows no file format and no batch type."""

from formatkit.kernel.bind import bind
from formatkit.kernel.evaluate import evaluate
from formatkit.kernel.names import find_column
from formatkit.kernel.pipeline import FileStream, read
from formatkit.kernel.plan import FilePlan, plan
from formatkit.kernel.request import FileRequest
from formatkit.kernel.resolve import MissingIds

__all__ = ["FilePlan", "FileRequest", "FileStream", "MissingIds", "bind", "evaluate", "find_column", "plan", "read"]
