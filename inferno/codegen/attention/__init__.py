"""Attention and its gradients.

* ``attention``: the kernel, whose roles are ``producer`` and ``consumer``, on ``frame`` and ``tiles``.  The consumer's steps are
  ``products``, ``scores`` (on ``score_pairs``), ``softmax`` and ``results``; ``turns`` order the consumers of a block.
* Its variants.  Float32: ``exact_consumer`` of bf16 ``pieces``, which may come of a ``splitting_producer``.  Few queries:
  ``cluster_shares``, ``split_keys``, and ``warps`` with keys of their own (``warp_products``, ``warp_exact``).  Equal work for all
  blocks: ``even_shares``, with a ``fixup`` of shared tiles.  ``masks``, ``blocks`` of block masks, ``dropout``, ``pages`` of caches and
  ``writes`` to them.
* ``attention_gradients``: the same for gradients, in modules ``gradients_*``.
* ``short_attention``: a generator of its own, for many heads with few keys."""
