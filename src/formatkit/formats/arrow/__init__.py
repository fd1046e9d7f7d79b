"""Arrow IPC files and streams, also known as Feather version 2."""
