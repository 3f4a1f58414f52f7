"""Elementwise kernels, and what only moves data.

``elementwise`` and ``boxes``; ``transposing``, ``transposing_vectors``, ``transposing_gathers`` and ``turning_results`` go through shared memory;
``branches`` are those of a body in vectors of points; ``narrow_index``, ``narrow_lanes``, ``lane_places`` and ``clamped_places`` are
arithmetic of indices; ``table_reads`` gathers; ``side_by_side`` brings neighbours by one access; ``begin_copies`` and ``flat_copy`` copy buffers."""
