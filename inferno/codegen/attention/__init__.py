"""Attention and its gradients.

``attention`` is the kernel: its roles are ``attention_producer`` and ``attention_consumer``, which share ``attention_frame``
and ``attention_tiles``; the consumer's steps are ``attention_products``, ``attention_scores``, ``attention_softmax`` and
``attention_results``, in ``turns``.  The other ``attention_*`` are variants: float32, few queries, masks, dropout, pages, writes
to caches.  ``attention_gradients`` and its ``attention_gradients_*`` go likewise; ``short_attention`` is a generator of its own."""
