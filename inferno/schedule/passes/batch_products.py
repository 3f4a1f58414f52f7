"""Hoist products that do not depend on a loop's state out of it, as one product for all steps: ``cell(x[:, t], h)`` multiplies all rows of ``x`` first."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.mlir import arith, func, ir, isolated_copy, linalg, owner, tensor
from inferno.passes.generics import PARALLEL, REDUCTION, body, build, clone_body, inputs, is_reduction, kinds, maps, substitute
from inferno.passes.programs import operations_in
from inferno.passes.split_contractions import split_contractions
from inferno.schedule.analysis.accesses import argument_index, filled


@dataclass(frozen=True)
class Product:
    """A kernel with one contraction, taken apart: ``function``, in a module of its own, ``op`` in it, and the arguments that are its factors."""

    function: func.FuncOp
    op: ir.Operation
    factors: tuple[int, ...]
    module: ir.Module = field(repr=False)


@dataclass(frozen=True)
class Slices:
    """A slice of a tensor from ``begins`` on that moves by one position along dimension ``dim`` in each step, of which it has no dimension; ``kept`` are those
    that it has, and ``sizes`` those of all."""

    whole: ir.Value
    dim: int
    begins: tuple[int, ...]
    sizes: tuple[int, ...]
    kept: tuple[int, ...]

    @property
    def place(self) -> int:
        """Where the dimension of steps is among those that are kept."""
        return sum(d < self.dim for d in self.kept)

    def of_all(self, value: ir.Value, steps: int) -> ir.Value:
        """What all steps have."""
        sizes = [steps if d == self.dim else n for d, n in enumerate(self.sizes)]
        type_ = ir.RankedTensorType.get([n for d, n in enumerate(sizes) if d == self.dim or d in self.kept], value.type.element_type)
        if type_ == value.type:
            return value
        return tensor.ExtractSliceOp(type_, value, [], [], [], list(self.begins), sizes, [1] * len(sizes)).result


def take_apart(kernel: func.FuncOp) -> Product | None:
    """The product that a kernel is, if its factors are whole arguments; None for any other kernel."""
    with kernel.context, kernel.location:
        module = isolated_copy(kernel)
        split_contractions(module)
    function = module.body.operations[0]
    found = [o for o in operations_in(function) if is_reduction(o)]
    if len(found) != 1 or len(found[0].results) != 1 or len(inputs(found[0])) != 2:
        return None
    factors = [argument_index(function, v) for v in inputs(found[0])]
    start = filled(list(found[0].operands)[-1])
    if None in factors or start is None or start.value != 0 or maps(found[0])[-1].n_dims != len(maps(found[0])[-1].results) + kinds(found[0]).count(REDUCTION):
        return None
    return Product(function, found[0], tuple(factors), module)


def slices_of(copy: func.FuncOp, whole: ir.Value, begins: Sequence[int], move: Sequence[int]) -> Slices | None:
    """What a kernel copies, where that begins so in the first step and moves by so much in each."""
    op = next(o.operation for o in copy.entry_block.operations if o.operation.name == "tensor.extract_slice")
    sizes, strides = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("sizes", "strides"))
    moved = [d for d, n in enumerate(move) if n]
    if len(moved) != 1 or move[moved[0]] != 1 or set(strides) != {1} or not isinstance(op.operands[0], ir.BlockArgument) or op.operands[0].type != whole.type:
        return None
    dim, kept, wanted = moved[0], [], list(op.results[0].type.shape)
    for d, size in enumerate(sizes):
        if d != dim and len(kept) < len(wanted) and size == wanted[len(kept)]:
            kept.append(d)
        elif size != 1:
            return None
    return Slices(whole, dim, tuple(begins), tuple(sizes), tuple(kept)) if len(kept) == len(wanted) else None


def batch_type(product: Product, steps: int) -> ir.Type:
    """The type of all steps' sums."""
    type_ = product.op.results[0].type
    return ir.RankedTensorType.get([steps, *type_.shape], type_.element_type)


def batched(kernel: func.FuncOp, product: Product, factors: Sequence[ir.Value | Slices], steps: int) -> None:
    """Fill in ``kernel``, which takes the factors, or what they are slices of, and makes all steps' sums."""
    with ir.InsertionPoint(kernel.entry_block), product.op.location:
        values = [f.of_all(v, steps) if isinstance(f, Slices) else v for v, f in zip(kernel.entry_block.arguments, factors)]
    batch_of(kernel, product.op, values, [f.place if isinstance(f, Slices) else None for f in factors], maps(product.op), kinds(product.op))


def batch_of(
    kernel: func.FuncOp, op: ir.Operation, values: Sequence[ir.Value], places: Sequence[int | None], indexing: Sequence[ir.AffineMap], loops: Sequence[str],
) -> None:
    """Fill in ``kernel`` with the sums of products ``op`` of a batch, whose loop is in front of the others: in each of the ``values`` that it multiplies at
    this place of its dimensions, if there at all.  ``indexing`` and ``loops`` are those of one product."""
    count = len(loops) + 1
    shift = [ir.AffineExpr.get_dim(d) for d in range(1, count)]

    def shifted(map_: ir.AffineMap, place: int | None) -> ir.AffineMap:
        results = list(substitute(map_, shift, count).results)
        return ir.AffineMap.get(count, 0, results if place is None else [*results[:place], ir.AffineExpr.get_dim(0), *results[place:]])

    destination = kernel.entry_block.arguments[len(kernel.type.inputs) - 1]
    with ir.InsertionPoint(kernel.entry_block), op.location:
        start = linalg.fill(arith.constant(destination.type.element_type, 0.0), outs=[destination])
        every = [shifted(m, p) for m, p in zip(indexing, (*places, 0))]
        made = build(values, [start], every, [PARALLEL, *loops], lambda a: clone_body(body(op), a), op.location)
        func.ReturnOp(list(made.results))


def needed(product: Product) -> list[ir.Operation]:
    """The operations of the kernel that do not serve the contraction alone, in order."""
    wanted: set[ir.Operation] = set()
    operations = operations_in(product.function)
    pending = list(operations[-1].operands)
    while pending:
        op = owner(pending.pop())
        if op is None or op == product.op or op in wanted:
            continue
        wanted.add(op)
        pending += op.operands
        pending += [v for region in op.regions for block in region.blocks for inner in block.operations for v in inner.operands]
    return [op for op in operations if op in wanted and op.name != "func.return"] + [operations[-1]]
