"""Jobs: work on a table that is cut into pieces, which an engine runs here or on a cluster."""

from formatkit.write.jobs.engine import Attempt, Engine, LocalEngine, Progress, Steps, Task, even_parts

__all__ = ["Attempt", "Engine", "LocalEngine", "Progress", "Steps", "Task", "even_parts"]
