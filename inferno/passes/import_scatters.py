"""Import writes and additions to rows at places whose number varies.

torch-mlir makes the places and what is written there at least one long, as if a row of them met another one that may be of size 1: where there are
none it reads behind the end of both, and everywhere it copies both.
"""

from inferno.mlir import arith, ir, owner, tensor, walk
from inferno.passes.generics import PARALLEL, build
from inferno.passes.import_row_extremes import scatter_rows
from inferno.passes.torch_tensors import broadcast_map, element_name, from_builtin, replace_found, size_of, to_builtin

_ADD = {**dict.fromkeys(("f16", "bf16", "f32", "f64"), arith.addf), **dict.fromkeys(("si64", "si32", "si16", "si8", "ui8"), arith.addi)}


def import_scatters(module: ir.Module) -> None:
    """Replace every ``torch.aten.index_put`` at one row of places, of the first dimension, whose size varies."""
    replace_found(module, [o for o in walk(module.operation, "torch.aten.index_put") if _at_a_row(o)], _replace)


def _at_a_row(op: ir.Operation) -> bool:
    """Whether the places are such a row, and the elements have a sum where they are added."""
    told, adds = owner(op.operands[1]), owner(op.operands[3])
    known = told is not None and told.name == "torch.prim.ListConstruct" and adds is not None and adds.name == "torch.constant.bool"
    if not known or len(told.operands) != 1 or not str(told.operands[0].type).startswith("!torch.vtensor<[?],"):
        return False
    element = element_name(op.operands[0])
    takes = element in _ADD or (element == "i1" and not _adds(op))
    return takes and element_name(told.operands[0]) in ("si64", "si32") and element_name(op.operands[2]) == element


def _adds(op: ir.Operation) -> bool:
    return ir.BoolAttr(owner(op.operands[3]).attributes["value"]).value


def _replace(op: ir.Operation) -> None:
    old, places, values = (to_builtin(v) for v in (op.operands[0], owner(op.operands[1]).operands[0], op.operands[2]))
    add = _ADD.get(element_name(op.operands[0]))
    sizes = [size_of(places, 0), *(size_of(old, d) for d in range(1, old.type.rank))]
    combine = (lambda update, before: add(before, update)) if _adds(op) else lambda update, _: update
    made = scatter_rows(old, places, _rows(values, sizes), not _adds(op), combine)
    op.results[0].replace_all_uses_with(from_builtin(made, op.results[0].type))
    op.erase()


def _rows(values: ir.Value, sizes: list[ir.Value | int]) -> ir.Value:
    """What is written, for each place: the values, once more wherever they are of size 1 or have no dimension."""
    read, every = broadcast_map(values, sizes, len(sizes)), ir.AffineMap.get_identity(len(sizes))
    if read == every:
        return values
    target = tensor.EmptyOp(sizes, values.type.element_type).result
    return build([values], [target], [read, every], [PARALLEL] * len(sizes), lambda arguments: arguments[:1], ir.Location.current).results[0]
