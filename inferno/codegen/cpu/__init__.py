"""The CPU.

``loops`` goes over ``loop_nests`` (``loop_order``, ``loop_operands``, ``loop_scope``, ``loop_emitter``, ``loop_ranges``), ``loop_rows``,
``loop_scan`` and ``loop_sorts``; ``running_values`` and ``register_accumulators`` keep sums, ``vector_math`` and
``native_checks`` are arithmetic and what eager refuses.  ``library`` calls torch's."""
