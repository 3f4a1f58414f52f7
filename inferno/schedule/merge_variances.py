"""On a GPU, let a sum and the sum of squared distances from its mean, each a kernel that reads all of a tensor, be one that reads it once.

The kernel adds up elements and their squares in float64, where a square of a float32 is exact: what the difference of the two sums loses is as much as
the mean is larger than the deviation, squared, of 2^-53, and so below what the rounding of float32 distances loses.  A second kernel, of a few
elements, makes what the two made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from inferno.mlir import arith, func, ir, linalg, owner, tensor
from inferno.passes.generics import PARALLEL, body, build, inputs, is_elementwise, is_generic, kinds, maps, outputs, yielded
from inferno.passes.programs import callee, root_of
from inferno.schedule.accesses import filled, loop_sizes
from inferno.schedule.attributes import ATTRIBUTE
from inferno.schedule.merge_calls import empty_like, inputs_of, merge_in, new_kernel, tell_sources
from inferno.target import find_target

_FLOATS = ("f32", "bf16", "f16")


@dataclass(frozen=True)
class _Sum:
    """A call of a kernel that is one sum over dimensions of its argument ``tensor``: of elements, or of squared distances from ``mean``."""

    call: ir.Operation
    generic: ir.Operation
    tensor: ir.Value
    mean: ir.Value | None

    @property
    def shape(self) -> tuple:
        """What two sums of the same elements have in common."""
        place = next(i for i, v in enumerate(self.places) if v == self.tensor)
        return maps(self.generic)[place], maps(self.generic)[-1], kinds(self.generic)

    @property
    def places(self) -> list[ir.Value]:
        """What the inputs of the generic are in ``@main``."""
        return [self.call.operands[ir.BlockArgument(v).arg_number] for v in inputs(self.generic)]


def merge_variances(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    if find_target(target).kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        calls = [o.operation for o in main.entry_block.operations if o.operation.name == "func.call"]
        sums = [s for s in (_sum(c, kernels) for c in calls) if s is not None]
        pairs = []
        for second in sums:
            mean = second.mean and _mean(second.mean, kernels)
            first = mean and next((s for s in sums if s.call == mean[0] and s.mean is None), None)
            if first and first.tensor == second.tensor and first.shape == second.shape and mean[1] == _terms(first.generic):
                if first.call.results[0].type == second.call.results[0].type:
                    pairs.append((first, second))
        for replace in [_replacement(module, kernels, *p) for p in pairs]:
            replace()
        return bool(pairs)

    merge_in(module, merge)


def _terms(generic: ir.Operation) -> int:
    """Terms of a sum."""
    return prod(n for n, k in zip(loop_sizes(generic), kinds(generic)) if k != PARALLEL)


def _sum(call: ir.Operation, kernels: dict[str, func.FuncOp]) -> _Sum | None:
    kernel = kernels.get(callee(call))
    if kernel is None or ATTRIBUTE in kernel.attributes:
        return None
    generics = [o.operation for o in kernel.entry_block.operations if is_generic(o.operation)]
    sizes = loop_sizes(generics[0]) if len(generics) == 1 else None
    if sizes is None or any(not isinstance(s, int) for s in sizes) or "linalg.index" in {o.name for o in body(generics[0]).operations}:
        return None
    (generic,) = generics
    block, given = body(generic), inputs(generic)
    if len(generic.results) != 1 or str(generic.results[0].type.element_type) != "f32" or any(not isinstance(v, ir.BlockArgument) for v in given):
        return None
    start, last = filled(outputs(generic)[0]), owner(yielded(generic)[0])
    if start is None or ir.FloatAttr(start).value != 0 or last is None or last.name != "arith.addf" or len(set(kinds(generic))) < 2:
        return None
    running = block.arguments[len(given)]
    terms = [v for v in last.operands if v != running]
    if len(terms) != 1 or str(terms[0].type) != "f32":
        return None
    places = [call.operands[ir.BlockArgument(v).arg_number] for v in given]
    point = _point(terms[0], block)
    if point is not None and len(given) == 1:
        return _Sum(call, generic, places[point], None)
    square = owner(terms[0])
    if square is None or square.name != "arith.mulf" or square.operands[0] != square.operands[1] or len(given) != 2:
        return None
    distance = owner(square.operands[0])
    if distance is None or distance.name != "arith.subf":
        return None
    point, mean = _point(distance.operands[0], block), _point(distance.operands[1], block)
    if point is None or mean is None or point == mean or maps(generic)[mean] != maps(generic)[-1] or str(given[mean].type.element_type) != "f32":
        return None
    return _Sum(call, generic, places[point], places[mean])


def _point(value: ir.Value, block: ir.Block) -> int | None:
    """Which argument of the block a value is, maybe widened."""
    op = owner(value)
    if op is not None and op.name == "arith.extf":
        value = op.operands[0]
    found = [i for i, a in enumerate(block.arguments) if a == value]
    return found[0] if found and str(value.type) in _FLOATS else None


def _mean(value: ir.Value, kernels: dict[str, func.FuncOp]) -> tuple[ir.Operation, float] | None:
    """The call whose result ``value`` is by a number of terms, and that number."""
    call = owner(root_of(value))
    kernel = kernels.get(callee(call)) if call is not None and call.name == "func.call" else None
    generics = [o.operation for o in kernel.entry_block.operations if is_generic(o.operation)] if kernel is not None else []
    if len(generics) != 1 or not is_elementwise(generics[0]) or len(inputs_of(call)) != 1 or len(set(map(str, maps(generics[0])))) != 1:
        return None
    block = body(generics[0])
    quotient = owner(yielded(generics[0])[0])
    if quotient is None or quotient.name != "arith.divf" or quotient.operands[0] != block.arguments[0]:
        return None
    count, made = owner(quotient.operands[1]), owner(root_of(inputs_of(call)[0]))
    if count is None or count.name != "arith.constant" or made is None or made.name != "func.call":
        return None
    return made, ir.FloatAttr(count.attributes["value"]).value


def _replacement(module: ir.Module, kernels: dict[str, func.FuncOp], first: _Sum, second: _Sum) -> Callable[[], None]:
    """What puts the two kernels' calls where the first sum's is."""
    kernel = kernels[callee(first.call)]
    sums, rest = _sums_kernel(module, kernel, first), _rest_kernel(module, kernel, first.call.results[0].type, _terms(first.generic))

    def replace() -> None:
        with ir.InsertionPoint(first.call), first.call.location:
            wide = list(sums.type.results)
            made = func.CallOp(sums, [first.tensor, *(tensor.EmptyOp(list(t.shape), t.element_type).result for t in wide)]).operation
            found = func.CallOp(rest, [*made.results, *empty_like([first.call.results[0], second.call.results[0]])]).operation
        for new in (made, found):
            tell_sources(new, [first.call, second.call])
        first.call.results[0].replace_all_uses_with(found.results[0])
        second.call.results[0].replace_all_uses_with(found.results[1])
        first.call.erase()
        second.call.erase()

    return replace


def _sums_kernel(module: ir.Module, kernel: func.FuncOp, first: _Sum) -> func.FuncOp:
    """Of the elements and of their squares."""
    f64, (points, sums, loops), location = ir.F64Type.get(), first.shape, first.generic.location
    result = ir.RankedTensorType.get(first.generic.results[0].type.shape, f64)
    new = new_kernel(module, kernel, "reduce_squares", [first.tensor.type], [result, result])
    x, *given = new.entry_block.arguments

    def fill(values: list[ir.Value]) -> list[ir.Value]:
        wide, contract = arith.extf(f64, values[0]), ir.Attribute.parse("#arith.fastmath<contract>")
        square = arith.mulf(wide, wide, fastmath=contract)
        return [arith.addf(wide, values[1], fastmath=contract), arith.addf(square, values[2], fastmath=contract)]

    with ir.InsertionPoint(new.entry_block):
        zero = arith.constant(f64, 0.0)
        starts = [linalg.fill(zero, outs=[v]) for v in given]
        made = build([x], starts, [points, sums, sums], loops, fill, location)
        func.ReturnOp(list(made.results))
    return new


def _rest_kernel(module: ir.Module, kernel: func.FuncOp, result: ir.Type, terms: int) -> func.FuncOp:
    """The sum, and the sum of squared distances."""
    f32, f64 = ir.F32Type.get(), ir.F64Type.get()
    wide = ir.RankedTensorType.get(result.shape, f64)
    new = new_kernel(module, kernel, "squared_distances", [wide, wide], [result, result])
    a, b, *given = new.entry_block.arguments
    identity = ir.AffineMap.get_identity(result.rank)

    def fill(values: list[ir.Value]) -> list[ir.Value]:
        total, squares, *_ = values
        below = arith.divf(arith.mulf(total, total), arith.constant(f64, float(terms)))
        distances = arith.maximumf(arith.subf(squares, below), arith.constant(f64, 0.0))
        return [arith.truncf(f32, total), arith.truncf(f32, distances)]

    with ir.InsertionPoint(new.entry_block):
        made = build([a, b], given, [identity] * 4, [PARALLEL] * result.rank, fill, kernel.operation.location)
        func.ReturnOp(list(made.results))
    return new
