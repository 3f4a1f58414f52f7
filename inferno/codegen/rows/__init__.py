"""Softmax, norms, and whatever else is maps, reductions and scans of the same rows.

* ``rows``: ``row_turns`` go over ``row_accesses`` and ``row_values``, ``row_totals`` and ``row_scans`` combine threads;
  ``ragged_rows``, ``persistent_rows``, ``kept_vectors``, ``gathered_results`` and ``sized_rows`` are for special layouts and
  lengths.  ``grid_rows``: rows of all blocks.
* ``columns``: ``column_totals``, ``column_scans``, ``column_moments``; ``staged_rows``, ``packed_vectors``, ``sized_columns``.
* ``transposed_rows``: ``columns`` with tiles of what lies with a row's points together.
* Arithmetic: ``online_sums``, ``row_divisions``, ``row_exponentials``."""
