"""Reductions over any dimensions.

``kernel`` is what a kernel function computes, ``parser`` reads it.  What that makes one operation that may be regrouped: ``extrema``, ``exponential_sums``,
``log_sums``, ``merge_generics``, ``split_products``, ``stored_maps``.  ``reductions`` chooses a ``reduction_schedule``, with ``joined_rows``,
``transposed_sums`` and ``uncoalesced_terms`` for layouts; ``long_sums``, ``batch_sums`` and ``sized_sums`` choose it for products of
vectors."""
