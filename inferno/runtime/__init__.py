"""From a user's call of ``inferno.compile`` or ``torch.compile`` to kernels that run.

* ``compile`` drives a compile; ``build`` and ``workers`` do it in worker processes; ``program`` is what comes of it, as data.
* ``plan``: the launch plan: ``@main`` as launches on buffers, in one workspace.
* ``launch``: plans as native code, for GPUs and the CPU, as CUDA graphs, and an interpreter for where there is no compiler.
* ``module`` is the compiled module, ``face`` what of an nn.Module it shows, ``executables`` what runs its programs; ``call``: the checks before a call, the
  results after it.
* ``region``: graphs of which parts run in eager, and the backend of ``torch.compile``; ``values``: models whose sizes depend on values.
* ``cache``: compiled kernels and programs on disk; ``package``: compiled programs as files of the user's; ``database``: measured schedules.
* ``check``: results and kernels against eager and float64.
* ``report``, ``explain``, ``stats``: what became of a model.  ``prepared``: what is computed of frozen weights.
"""
