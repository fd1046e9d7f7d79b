"""Apache ORC: pyarrow decodes and encodes, everything around the columns is read and written here."""
