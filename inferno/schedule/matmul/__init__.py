"""Products of matrices and vectors: what such a kernel computes, and the schedules of it.

``contraction`` is what ``parser`` reads off a kernel; ``contraction_parts`` splits off its maps, ``row_contraction`` what follows on the rows of the
result, ``selected_products`` a product of groups of rows.  For each generator a module with the schedule and ``choose``:

* Hopper's tensor cores: ``wgmma`` (with ``wgmma_schedule``, ``wgmma_cost``, ``wgmma_registers``, ``thin``, ``short_sums``,
  ``shared_terms``), ``wgmma_rows``, ``dual``, ``grouped``; in float32 ``bf16x6``, ``presplit`` and ``dual_bf16x6``, with
  ``operand_forms`` for frozen weights.
* Tensor cores from sm_80 on: ``mma``, ``direct``, ``direct_bf16x6``.
* CUDA cores: ``simt``, ``vectors``, ``short_vectors``, ``dual_vectors``, ``small_products``.
* The library: ``cublaslt``, ``library_epilogue``, ``library_times``, ``weigh_library``.

``product_times`` estimates a product for passes, before it has a schedule."""
