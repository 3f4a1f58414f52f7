"""Attention and its gradients: what such a kernel computes, and the schedules of it.

* ``kernel`` and ``gradient_kernel`` say what a kernel computes; ``parser`` and ``gradient_parser`` find that, on ``score_expressions``.  ``bands``,
  ``listed_blocks``, ``dropout``, ``softmax``, ``divisors``, ``weighting``, ``zero_bands``, ``cache_writes`` and ``kept_scores`` are parts of it.
* ``attention``: chooses a ``schedule`` among ``candidates`` by ``cost``, where ``support``, ``tiling`` and ``resources`` allow it;
  ``by_size`` has several for sizes that vary.  Its variants: ``splitting_producer`` (float32 that the producer splits), ``warps`` (few
  float32 queries), ``masks`` (which the copy engine brings), ``writes`` (caches that are written first).
* ``attention_gradients`` and ``short_attention``: the other generators."""
