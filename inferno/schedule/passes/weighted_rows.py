"""Sums of rows that are weighted by a vector, which are imported as products with the vector, in the form in which row-wise kernels are analysed.

A contraction may have something made of its result in the same operation (a mean's quotient), or maps of its own before and behind it (``fuse-epilogues``).
Rows have the sum, and then what is made of it; what the vector is made of is computed where it is read.
"""


from inferno.mlir import func, ir, owner, walk
from inferno.passes.fuse_elementwise import fuse
from inferno.passes.generics import inputs, is_elementwise, is_reduction, kinds, only_user
from inferno.passes.split_contractions import split_contractions


def take_apart(kernel: func.FuncOp) -> None:
    """Rewrite a kernel's function."""
    split_contractions(kernel, ended=True)
    for op in walk(kernel, "linalg.generic"):
        while is_reduction(op) and (number := _weights(op)) is not None:
            producer = owner(inputs(op)[number])
            new = fuse(producer, op, number)
            if new is None:
                break
            new = new.operation if isinstance(new, ir.OpView) else new
            for old, result in zip(op.results, new.results):
                old.replace_all_uses_with(result)
            op.erase()
            producer.erase()
            op = new


def _weights(op: ir.Operation) -> int | None:
    """An input that is made of the kernel's arguments for this operation alone, and is smaller than what it goes over."""
    for number, value in enumerate(inputs(op)):
        made = owner(value)
        if is_elementwise(made) and len(kinds(made)) < len(kinds(op)) and len(made.results) == 1 and only_user(value) is not None:
            if inputs(made) and all(isinstance(v, ir.BlockArgument) for v in inputs(made)):
                return number
    return None
