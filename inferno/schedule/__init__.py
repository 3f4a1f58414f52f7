"""From the ``fused`` stage to ``scheduled``: fusion that depends on the target, and a schedule for each kernel.

A *schedule* says how a kernel is computed: a frozen dataclass of knobs that names its generator.  Each kind of kernel has a subpackage here and
one of the same name in ``inferno.codegen``.  For each generator there is a module in both: here with the dataclass,
``choose(kernel, target)``, which returns a schedule or None, and the cost model that picks it; there with the code.

* ``assign`` asks the generators in turn; ``attributes`` lists them, and writes schedules in the IR; ``known`` are measured schedules, and
  ``spaces`` what the tuner may try.
* Kinds of kernels: ``matmul``, ``convolution``, ``attention``, ``rows`` (softmax, norms), ``reductions``, ``scans``, ``sorts``,
  ``scatters``, ``maps``, ``recurrence``, ``composite`` (several in one launch), ``universal``, ``cpu``.  In each, ``kernel.py`` or the like
  parses a kernel function: what it computes, or that it is something else.
* What they share: ``analysis`` and ``tiles``.
* ``passes``: the passes of ``inferno-schedule``, one file each.

Start with ``assign``, and with ``matmul.simt`` or ``maps.elementwise`` as examples.  Each subpackage's docstring groups its modules.
"""
