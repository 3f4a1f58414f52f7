"""Measure the schedules of kernels on the GPU that is here, and keep the best.

* ``tuner`` goes through kernels, ``search`` chooses which of a kernel's schedules are measured, ``records`` keeps what was measured so far.
* ``measurer`` has schedules timed by a process of its own (``child``, ``gpu``), which may hang or fault; ``suspects`` knows which knobs made it.
* ``display``: progress on stderr.

The schedules to choose from are in ``inferno.schedule.spaces``; what was found is kept by ``inferno.runtime.database``.
"""
