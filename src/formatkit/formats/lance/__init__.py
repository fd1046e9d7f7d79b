"""Lance files for Arrow batches."""
