"""The passes of ``inferno-schedule``: fusion and layouts that depend on the target.  ``inferno.passes.pipelines`` lists them in
the order in which they run.

One file a pass, named as it is: ``fuse_*`` and ``merge_*`` make one kernel of several, ``split_*`` several of one, ``order_*``
change layouts.  What passes share:

* Kernels and their calls (``calls``, ``edges``), passes that rewrite both (``rewrite``), and kernels merged by these: ``merge_calls`` (one function
  of several), ``merge_independent``, ``pairs``, ``operation_order``, ``size_factors``, ``map_calls``; ``adjacent_maps`` joins those of maps to others'.
* Patterns that they look for: ``softmax_calls``, ``stacked``, ``totals``, ``stacks``, ``looked_up_rows``, ``row_values``,
  ``weighted_rows``, ``changed_places``; ``call_times`` and ``kernel_times`` are estimates.
* Parts of one pass: of ``roll-steps`` ``equal_steps``, ``first_steps``, ``inline_steps``, ``batch_products``, ``join_loops``
  and ``join_pieces``; of ``fuse-epilogues`` and ``fuse-duals`` ``join_epilogues``, ``split_chunks`` and ``chunk_kernels``; of
  ``fuse-sum-maps`` and ``merge-reads`` ``behind_sums``; of ``hoist-vectors`` ``gathered_vectors``; of ``fuse-scatters`` ``flatten_places``;
  of ``fuse-reductions`` ``transpose_results``."""
