"""Softmax, norms, and whatever else is maps, reductions and scans of the same rows.

``kernel`` says what a kernel computes, ``parser`` finds it: its operations are ``row_steps``, what it reads ``row_pieces``, what only moves its results
``row_results`` (``split_loops``); ``split_extrema`` makes two reductions of an argmax; ``moments``, ``row_maxima`` and
``group_channels`` are patterns in it.  Schedules:

* ``rows``: a row is contiguous (``row_schedule``, ``row_lanes``, ``row_operands``, ``row_sectors``, ``gathered_results``; its cost model is ``row_time``,
  on ``row_work``), in registers (``held_rows``), in shared memory or read again (``kept_rows``); ``long_rows`` of clusters, ``grid_rows`` of all blocks.
* ``columns``: neighbours in memory are other rows (``column_schedule``, ``column_time``, ``transposed_results``); ``lone_rows``, ``short_rows`` and
  ``packed_rows``: a thread has whole rows.
* ``transposed_rows``: they are other rows in some tensors, and the same row's points in others.
* ``sized_rows`` and ``sized_columns``: lengths that vary (``row_lengths``)."""
