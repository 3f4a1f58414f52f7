"""The generator that takes every kernel, by upstream's bufferization.

``universal`` calls ``to_buffers`` (with ``stand_ins``) and ``to_launches``, which makes a kernel of each operation: ``points``
(``structured``, ``block_reductions``), ``scan``, ``sort``, ``scatter``, ``serial``; ``fill_launches``, ``sort_launches`` and
``scatter_launches`` join some of them, by ``buffer_operations``."""
