"""Elementwise kernels, and what only moves data.

``pointwise`` reads a kernel, with ``gathers``, ``turned_picks`` and ``strewn_arguments`` for what it reads; ``elementwise`` and
``boxes`` are the schedules."""
