"""From the ``scheduled`` stage to ``gpu``: generators write the code of kernels.

``generate`` calls ``inferno.codegen.<kind>.<generator>.generate(kernel, schedule, target)`` for each kernel function.  It adds a
``gpu.module`` (on the CPU a nested module) and replaces the function by its launcher.  The kinds of kernels are those of ``inferno.schedule``:
``matmul``, ``convolution``, ``attention``, ``rows``, ``reductions``, ``scans``, ``sorts``, ``scatters``, ``maps``, ``recurrence``,
``composite``, ``universal``, ``cpu``.

What they share is in ``builders`` (functions, index arithmetic, loads and stores, bodies) and in ``nvvm`` (barriers, the copy engine, tensor cores, what
threads and blocks exchange).  Read ``builders.gpu_function``, ``builders.launcher`` and ``builders.integers``, then a generator: ``matmul.simt`` is
written in the gpu, vector and arith dialects; ``matmul.wgmma`` in nvvm and llvm, for Hopper, with warps of different roles.  Each subpackage's
docstring groups its modules.
"""
