"""Writing: data from anywhere into files and tables, in any format, with the metrics that Iceberg wants."""

from formatkit.write.append import append
from formatkit.write.config import TableWriteConfig
from formatkit.write.data_writer import WrittenFile
from formatkit.write.file import write_file
from formatkit.write.merge import Delete, Insert, MergeResult, Update, merge
from formatkit.write.operations import RewritePlan, RewriteResult, UpsertResult, delete, overwrite, rewrite, upsert
from formatkit.write.orphans import OrphanReport, clean_orphans
from formatkit.write.table_writer import TableWriter, write_data_files

__all__ = [
    "Delete",
    "Insert",
    "MergeResult",
    "OrphanReport",
    "RewritePlan",
    "RewriteResult",
    "TableWriteConfig",
    "TableWriter",
    "Update",
    "UpsertResult",
    "WrittenFile",
    "append",
    "clean_orphans",
    "delete",
    "merge",
    "overwrite",
    "rewrite",
    "upsert",
    "write_data_files",
    "write_file",
]
