"""Elements or rows put or added where indices tell: ``scatters`` in shared memory, ``row_sums`` by atomic additions,
``sorted_rows`` in order (``row_order``), ``matched_rows`` by who looks for them; ``row_values`` are what both have of a row, ``flat_elements`` computes indices
and updates."""
