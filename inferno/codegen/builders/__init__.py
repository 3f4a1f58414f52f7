"""What generators share: the shell of a kernel and of its launcher, index arithmetic, loads and stores, bodies of
``linalg.generic``.

* ``gpu_function`` and ``launcher``; ``device_function`` makes a kernel of operations that are there already.
* ``integers``, ``conditions``, ``elements``, ``unaligned``, ``gathered_values``, ``lane_patterns``, ``flatten_accesses``.
* ``inline`` a body; ``expand_math``, ``constant_divisions``, ``minmax``, ``float8``, ``bytes_to_floats``, ``widened_pairs``,
  ``multiply_adds`` and ``exact_sums`` are its arithmetic."""
