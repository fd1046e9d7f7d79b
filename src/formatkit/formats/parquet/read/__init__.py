"""How pages are read and checked."""
