"""Equal steps in one launch: ``recurrence_kernel`` reads a kernel, ``recurrence`` is the schedule."""
