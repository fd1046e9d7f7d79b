"""Reading the values of ORC files."""
