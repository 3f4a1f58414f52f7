"""From the ``scheduled`` stage to ``gpu``: generators write the code of kernels.

``generate`` calls ``inferno.codegen.<generator>.generate(kernel, schedule, target)`` for each kernel function.  It adds a
``gpu.module`` (on the CPU a nested module) and replaces the function by its launcher.  Read ``gpu_function``, ``launcher`` and
``integers``, then a generator: ``simt`` is written in the gpu, vector and arith dialects; ``wgmma`` in nvvm and llvm, for Hopper,
with warps of different roles.

Modules by topic:

* The shell of a kernel and of its launcher, index arithmetic, loads and stores, bodies of ``linalg.generic``: ``generate``,
  ``gpu_function``, ``launcher``, ``integers``, ``elements``, ``inline``, ``expand_math``, ``flatten_accesses``.
* A thin layer over the nvvm dialect: pointers, barriers, the copy engine (TMA), wgmma, clusters, and what blocks exchange through
  memory: ``nvvm_builder``, ``global_memory``, ``mbarriers``, ``tma``, ``tensor_core``, ``async_copies``, ``cluster``,
  ``cluster_exchange``, ``shuffles``, ``flagged_words``, ``marked_words``.
* Contractions on Hopper's tensor cores, and how blocks share tiles and sums: ``wgmma``, ``wgmma_producer``, ``wgmma_consumer``,
  ``wgmma_rewriter``, ``wgmma_epilogue``, ``wgmma_launch``, ``tile_copies``, ``tile_numbers``, ``tile_order``, ``brought_tiles``,
  ``split_sums``, ``stream_k``.
* Variants of these with another epilogue, two products, groups of rows, or float32 operands: ``wgmma_rows``, ``row_epilogue``, ``dual``,
  ``grouped``, ``channel_sums``, ``bf16x6``, ``presplit``, ``splitting``, ``wgmma_registers``.
* Contractions by mma.sync, on any GPU from sm_80 on: ``mma``, ``mma_operand``, ``mma_tile``, ``pair_epilogue``, ``direct``,
  ``direct_bf16x6``.
* Contractions on CUDA cores: ``simt``, ``simt_operand``, ``simt_epilogue``, ``vectors``, ``short_vectors``, ``small_products``,
  ``dual_vectors``.
* Convolutions and their gradients: ``im2col``, ``halo``, ``halo_consumer``, ``halo_phases``, ``pixel_sums``, ``windows``,
  ``window_sums``, ``staged_windows``, ``band_windows``, ``group_windows``, ``tap_sums``, ``tap_tiles``, ``tap_results``.
* Attention; the other ``attention_*`` are variants (float32, few queries, dropout, paged caches) and gradients: ``attention``,
  ``attention_frame``, ``attention_producer``, ``attention_consumer``, ``attention_products``, ``attention_scores``,
  ``attention_softmax``, ``attention_results``, ``attention_tiles``.
* Softmax, norms and reductions: ``rows``, ``row_turns``, ``row_accesses``, ``row_values``, ``row_totals``, ``row_scans``,
  ``columns``, ``column_totals``, ``grid_rows``, ``reductions``, ``reduction_chunks``, ``reduction_extrema``, ``joining``.
* Scans, sorts, selections and scatters: ``scans``, ``scan_along``, ``scan_across``, ``scan_lanes``, ``scan_tiles``,
  ``look_back``, ``sorts``, ``sort_keys``, ``sort_tiles``, ``short_sorts``, ``select``, ``scatters``, ``row_sums``,
  ``sorted_rows``, ``row_order``.
* Maps: ``elementwise``, ``transposing``, ``transposing_vectors``, ``transposing_picks``, ``boxes``, ``lane_patterns``,
  ``narrow_index``.
* Many operations in one launch, and several kernels for one function: ``recurrence``, ``siblings``, ``bundle``, ``arms``,
  ``by_size``, ``one_block``.
* The generator that takes every kernel, by upstream's bufferization: ``universal``, ``to_buffers``, ``to_launches``, ``points``,
  ``structured``, ``scan``, ``sort``, ``scatter``.
* The CPU: ``loops``, ``loop_nests``, ``loop_emitter``, ``loop_order``, ``loop_rows``, ``vector_math``, ``native_checks``.
* Kernels that a library computes: ``library``, ``cublaslt``.
"""
