"""Elementwise kernels, and what only moves data.

* ``pointwise`` parses a kernel function: ``supported`` says what bodies may hold; ``gathers``, ``channels``, ``transposed_gathers``, ``computed_places``,
  ``pieces``, ``transposed`` and ``uncoalesced_arguments`` are about what it reads, ``shared_reads`` about what neighbours have in common, ``turned_results``
  about both where they lie along different loops.
* ``elementwise`` and ``boxes`` are the schedules."""
