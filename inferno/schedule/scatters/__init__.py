"""Elements or rows put or added where indices tell.

``scatter_kernel`` and ``added_rows`` read a kernel, with ``flat_elements`` and ``place_cases`` for indices; ``scatters``,
``row_sums`` and ``sorted_rows`` are the schedules."""
