"""Equal steps in one launch: ``kernel`` parses a kernel function, ``recurrence`` is the schedule."""
