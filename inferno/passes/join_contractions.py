"""Join what split-contractions took apart: contraction and maps back into one generic."""

from inferno.mlir import ir
from inferno.passes.fuse_contractions import join


def join_contractions(module: ir.Module) -> None:
    """Fuse every contraction with the elementwise generics that make its operands and read its result."""
    join(module)
