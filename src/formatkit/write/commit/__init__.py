"""Commits: files become part of a table, or leave it, in one snapshot."""

from formatkit.write.commit.change import Change, Command, DeleteKey
from formatkit.write.commit.cleanup import UncommittedFiles
from formatkit.write.commit.commit import commit
from formatkit.write.commit.version3 import disable_version3, enable_version3

__all__ = ["Change", "Command", "DeleteKey", "UncommittedFiles", "commit", "disable_version3", "enable_version3"]
