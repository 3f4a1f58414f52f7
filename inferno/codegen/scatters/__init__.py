"""Elements or rows put or added where indices tell: ``scatters`` in shared memory, ``row_sums`` by atomic additions,
``sorted_rows`` in order (``row_order``); ``flat_elements`` computes indices and updates."""
