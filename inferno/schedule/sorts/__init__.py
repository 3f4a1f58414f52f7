"""Sorts and selections: ``sort_kernel`` reads a kernel; ``sorts``, ``short_sorts`` and ``select`` are the schedules."""
