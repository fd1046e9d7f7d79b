"""What need not be read of a file: row groups and pages that cannot hold a matching row."""
