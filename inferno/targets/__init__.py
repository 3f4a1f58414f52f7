"""The last steps to machine code: from MLIR's LLVM dialect to a cubin (``nvptx``) or to native code of the host (``cpu``).

* ``nvptx``: LLVM IR, PTX and a cubin; ``llvm_text``, ``bf16_roundings``, ``libdevice``, ``toolkit``, ``resources`` and ``sass`` are its parts.
* ``cpu``, ``bf16_bits``: MLIR's execution engine.
* ``torch_source``: a program of structured operations as PyTorch source code, which results are checked against.

What a machine can do, as data, is in ``inferno.target``.
"""
