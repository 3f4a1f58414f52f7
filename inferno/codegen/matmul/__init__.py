"""Products of matrices and vectors.

* Hopper's tensor cores: ``wgmma``, whose roles are ``wgmma_producer``, ``wgmma_rewriter`` (by ``rewriting``) and
  ``wgmma_consumer``, on ``tile_copies``, ``tile_numbers`` and ``tile_order``; ``wgmma_launch`` and ``operand_copy`` are the
  host's side, ``wgmma_epilogue``, ``brought_tiles``, ``result_lines`` and ``result_pieces`` the end of a tile; ``split_sums``
  and ``stream_k`` share sums.
* Variants: ``wgmma_rows`` with ``row_epilogue``, ``dual``, ``grouped`` with ``group_list``, ``wgmma_registers``; in float32
  ``bf16x6``, ``presplit``, ``dual_bf16x6``, with ``splitting`` and ``split_ahead``.
* mma.sync, from sm_80 on: ``mma``, ``mma_operand``, ``mma_tile``, ``pair_epilogue``; ``direct``, ``direct_bf16x6``,
  ``direct_factor``, ``direct_parts``.
* CUDA cores: ``simt``, ``simt_operand``, ``simt_epilogue``, ``vectors``, ``short_vectors``, ``dual_vectors``,
  ``small_products``.
* ``cublaslt`` calls the library."""
