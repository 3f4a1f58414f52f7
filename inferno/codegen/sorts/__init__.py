"""Sorts and selections.

``sorts`` by merging ``tiles`` (``lanes``), of items that ``keys`` and ``rows`` make; ``short_sorts`` in
registers (``values``, ``thread_chunks``); ``select`` by ``narrowing`` bounds, by a ``team`` of threads."""
