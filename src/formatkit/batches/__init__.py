"""The in-memory axis: one module per batch type."""
