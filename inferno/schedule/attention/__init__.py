"""Attention and its gradients: what such a kernel computes, and the schedules of it.

``attention_kernel`` and ``attention_gradient_kernel`` read a kernel: ``bands``, ``listed_blocks``, ``attention_dropout``,
``cache_writes`` and ``kept_scores`` are parts of what they find.  ``attention_schedule`` is what a schedule says, ``attention``
chooses it of ``attention_candidates`` by ``attention_cost``, where ``attention_support``, ``attention_tiling`` and
``attention_room`` allow it; ``attention_by_size`` has several.  ``attention_gradients`` and ``short_attention`` are the other
generators.  Variants: ``attention_cuts`` (float32 that the producer splits), ``attention_warps`` (few float32 queries),
``attention_masks`` (masks that the copy engine brings), ``attention_writes`` (caches that are written first)."""
