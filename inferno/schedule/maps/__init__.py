"""Elementwise kernels, and what only moves data.

``pointwise`` reads a kernel, with ``gathers``, ``transposed_gathers`` and ``uncoalesced_arguments`` for what it reads; ``elementwise`` and
``boxes`` are the schedules."""
