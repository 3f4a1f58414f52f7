"""Arguments of a kernel that are a contraction's operand in another form, made when a weight changed (see ``prepare-operands``).

An attribute of such an argument has the number of the one that it is made of: ``inferno.parts``, split into three bf16 (see ``presplit``), or
``inferno.copy``, with strides that the copy engine can read.  What the kernel computes is said by the others alone.
"""

from collections.abc import Mapping

from inferno.mlir import func, ir
from inferno.passes.shapes import argument_attributes

PARTS, COPY = "inferno.parts", "inferno.copy"


def kept(kernel: func.FuncOp, form: str) -> dict[int, int]:
    """The arguments that are there in this form too: number -> number of the argument in that form."""
    entries = argument_attributes(kernel.operation)
    return {ir.IntegerAttr(e[form]).value: i for i, e in enumerate(entries) if form in e}


def keep(kernel: func.FuncOp, form: str, found: Mapping[int, int]) -> None:
    """Say what ``kept`` says, and nothing else, of a kernel's arguments."""
    weights = {i: n for n, i in found.items()}
    if weights:
        number = ir.IntegerType.get_signless(64)
        marks = ({form: ir.IntegerAttr.get(number, weights[i])} if i in weights else {} for i in range(len(kernel.type.inputs)))
        kernel.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(m) for m in marks])
