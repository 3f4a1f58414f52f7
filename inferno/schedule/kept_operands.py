"""A kernel's arguments that are an operand of its contraction in another form, made when a weight changed (see ``prepare-operands``).

An attribute of such an argument has the number of the one that it is made of: ``inferno.parts``, split into three bf16 (see ``presplit``), or
``inferno.copy``, with strides that the copy engine can read.  What the kernel computes is said by the others alone.
"""

from inferno.mlir import func, ir
from inferno.passes.shapes import argument_attributes

PARTS, COPY = "inferno.parts", "inferno.copy"


def kept(kernel: func.FuncOp, form: str) -> dict[int, int]:
    """The arguments that are there in this form too: number -> number of the argument in that form."""
    entries = argument_attributes(kernel.operation)
    return {ir.IntegerAttr(e[form]).value: i for i, e in enumerate(entries) if form in e}
