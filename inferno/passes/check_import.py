"""Refuse an imported program that is known to be wrong, or that was not imported whole.

torch-mlir flattens two sizes that vary by casting one of them to 1, which drops rows without a word; and an operation whose
lowering gives up can leave torch's types behind.
"""

from inferno.errors import PassError
from inferno.mlir import ir, walk


def check_import(module: ir.Module) -> None:
    """Raise PassError for a cast of an unknown size to 1, and for what is left of the torch dialect."""
    for op in walk(module.operation):
        if op.name.startswith(("torch.", "torch_c.")):
            raise PassError(f"check-import: {op.name} was left behind: {op.location}")
        if op.name == "tensor.cast" and _forgets_a_size(op):
            raise PassError(
                f"check-import: {op.operands[0].type} is cast to {op.results[0].type}, which drops every row but one: {op.location}; "
                f"flatten one size that varies at a time"
            )


def _forgets_a_size(cast: ir.Operation) -> bool:
    """Whether a size that is not known becomes 1."""
    if not all(isinstance(t, ir.RankedTensorType) for t in (cast.operands[0].type, cast.results[0].type)):
        return False
    source, result = cast.operands[0].type, cast.results[0].type
    return any(source.is_dynamic_dim(i) and not result.is_dynamic_dim(i) and result.get_dim_size(i) == 1 for i in range(result.rank))
