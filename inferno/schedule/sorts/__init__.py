"""Sorts and selections: ``kernel`` parses a kernel function; ``sorts``, ``short_sorts`` and ``select`` are the schedules."""
