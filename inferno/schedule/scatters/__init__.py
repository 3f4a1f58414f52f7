"""Elements or rows put or added where indices tell.

``kernel`` and ``added_rows`` parse a kernel function, with ``flat_elements`` and ``place_cases`` for indices; ``scatters``,
``row_sums``, ``sorted_rows`` and ``matched_rows`` are the schedules."""
