"""The shell commands.

* ``cli``: ``inferno COMMAND``; ``compile_command``, ``check_command``, ``cache``, ``tune`` and ``package`` are subcommands, ``subject`` what they are given.
* ``opt``, ``diagnostics``: ``inferno-opt``, which runs pipelines on MLIR text.
* ``expression``, ``hugging_face``, ``ir_program``: what is compiled: Python text, a class in a file, a Hugging Face model, a file of IR.
* ``check``, ``reproducer``: results against float64, and a kernel as files.
* ``timing``, ``versus``: times beside eager and torch.compile.
* ``ending``: how a command ends: exit status, errors, Ctrl-C.
* ``demo``: ``make demo``.
"""
