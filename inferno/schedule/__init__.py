"""From the ``fused`` stage to ``scheduled``: fusion that depends on the target, and a schedule for each kernel.

A *schedule* says how a kernel is computed: a frozen dataclass of knobs that names its generator.  For each generator there is a
module here, of the same name as in ``inferno.codegen``, with the dataclass, ``choose(kernel, target)``, which returns a schedule
or None, and the cost model that picks it.  Start with ``assign``, which asks these modules in turn, and with ``simt`` or
``elementwise`` as examples.

Modules by topic:

* Who chooses schedules, how they are written in the IR, measured ones, and what the tuner may try: ``assign``, ``attributes``,
  ``known``, ``spaces``, ``weigh_library``, ``unchanged``.
* Analyses, which read off a kernel function what it computes, or that it is something else: ``contraction``,
  ``contraction_parts``, ``convolution``, ``window_kernel``, ``tap_kernel``, ``row_contraction``, ``summed_columns``,
  ``pointwise``, ``row_kernel``, ``row_steps``, ``reduction_kernel``, ``scan_kernel``, ``sort_kernel``, ``scatter_kernel``,
  ``added_rows``, ``attention_kernel``, ``attention_gradient_kernel``, ``recurrence_kernel``.
* What analyses share: strides of operands, reductions' operators, scalar expressions: ``accesses``, ``combiners``,
  ``expressions``, ``expression_tracer``, ``expression_folding``, ``expression_maps``, ``place_cases``, ``flat_elements``.
* Tiles that Hopper's copy engine (TMA) can bring, and what they cost: ``tiling``, ``unfolded``, ``result_parts``,
  ``shared_tiles``, ``tile_ends``.
* Products of matrices and vectors: ``simt``, ``mma``, ``wgmma``, ``wgmma_schedule``, ``wgmma_cost``, ``thin``, ``bf16x6``,
  ``presplit``, ``direct``, ``direct_bf16x6``, ``vectors``, ``short_vectors``, ``small_products``, ``dual``, ``dual_bf16x6``,
  ``dual_vectors``, ``grouped``, ``wgmma_rows``, ``siblings``, ``cublaslt``.
* Convolutions and their gradients: ``im2col``, ``halo``, ``pixel_sums``, ``channel_sums``, ``windows``, ``staged_windows``,
  ``band_windows``, ``group_windows``, ``tap_sums``.
* Attention, its masks and caches, and its gradients: ``attention``, ``attention_schedule``, ``attention_candidates``,
  ``attention_cost``, ``attention_support``, ``attention_tiling``, ``attention_gradients``, ``bands``, ``listed_blocks``,
  ``pages``.
* Softmax, norms and reductions: ``rows``, ``grid_rows``, ``columns``, ``short_rows``, ``long_rows``, ``packed_rows``,
  ``reductions``, ``long_sums``, ``batch_sums``, ``extrema``, ``moments``, ``exponential_sums``.
* Scans, sorts, selections and scatters: ``scans``, ``sorts``, ``short_sorts``, ``select``, ``scatters``, ``row_sums``,
  ``sorted_rows``.
* Maps, and transpositions of what they read: ``elementwise``, ``boxes``, ``turned_picks``, ``strewn_arguments``.
* Several kernels for one function whose sizes vary: ``by_size``, ``sized_rows``, ``sized_columns``, ``sized_scans``,
  ``sized_sums``, ``row_lengths``, ``varying_rows``.
* Recurrences, many small operations in one launch, what takes everything, and the CPU: ``recurrence``, ``one_block``, ``bundle``,
  ``universal``, ``loops``, ``library``.
* Bytes, operations and estimates that several of them share: ``cost``, ``call_times``, ``product_times``, ``library_times``.

All others are passes, one file each, listed in ``inferno.passes.pipelines`` in the order in which they run, and what these and the
modules above import: ``fuse_*`` and ``merge_*`` make one kernel of several, ``split_*`` several of one, ``order_*`` change layouts.
"""
