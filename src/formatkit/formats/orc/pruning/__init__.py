"""What need not be read of a file: stripes that cannot hold a matching row."""
