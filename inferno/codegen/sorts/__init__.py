"""Sorts and selections.

``sorts`` by merging ``sort_tiles`` (``sort_lanes``), of items that ``sort_keys`` and ``sort_rows`` make; ``short_sorts`` in
registers (``sort_values``, ``thread_chunks``); ``select`` by ``narrowing`` bounds, by a ``team`` of threads."""
