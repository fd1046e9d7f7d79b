"""What formatkit gives pyiceberg to load, and on whose word."""
