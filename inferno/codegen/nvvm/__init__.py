"""A thin layer over the nvvm dialect, and what threads and blocks exchange.

``builder`` and ``global_memory`` (numbers, pointers, control flow), ``mbarriers``, ``tma``, ``tensor_core`` (wgmma),
``async_copies``, ``cluster`` and ``cluster_exchange``, ``shuffles``; through memory ``flagged_words``, ``marked_words``,
``filled_words``."""
