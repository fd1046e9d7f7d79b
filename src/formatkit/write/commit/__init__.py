"""Commits: files become part of a table, or leave it, in one snapshot."""

from formatkit.write.commit.change import Change, Command, DeleteKey
from formatkit.write.commit.cleanup import UncommittedFiles
from formatkit.write.commit.commit import commit

__all__ = ["Change", "Command", "DeleteKey", "UncommittedFiles", "commit"]
