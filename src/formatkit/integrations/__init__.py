"""formatkit inside other libraries."""
