"""PyTorch as a target: the Python program that a module of structured operations stands for.

It is for people who want to know what a kernel computes, and for the check, which runs the same program, in float64 for
the reference and as it stands for what eager would have computed.  ``to_torch`` is text to text and imports no torch.

- ``program``: functions and the module, ``@main``'s calls
- ``tensors``: operations on whole tensors: slices, padding, concatenation, scans, sorts, scatters
- ``generic``: ``linalg.generic``: index-mapped operands, reductions, contractions
- ``scalars``: the arithmetic in a body, as expressions of tensors over its loops
"""

from inferno.targets.torch_source.program import Source, python_name, to_torch
from inferno.targets.torch_source.values import Inexpressible

__all__ = ["Inexpressible", "Source", "python_name", "to_torch"]
