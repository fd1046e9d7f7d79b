"""Tables as sources and sinks of Structured Streaming."""
