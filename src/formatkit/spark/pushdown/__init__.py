"""What Spark's planner asks of a scan beyond columns, filters and a limit."""
