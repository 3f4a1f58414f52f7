"""On a GPU, let a sum and the sum of squared distances from its mean, each a kernel that reads all of a tensor, be one that reads it once.

The kernel adds up elements and their squares in float64, where a square of a float32 is exact: what the difference of the two sums loses is as much as
the mean is larger than the deviation, squared, of 2^-53, and so below what the rounding of float32 distances loses.  A second kernel, of a few
elements, makes what the two made, and a map of each sum behind them; ``fuse-sum-maps`` puts it where the sums come together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from inferno.mlir import arith, func, ir, linalg, owner, tensor, users
from inferno.passes.generics import PARALLEL, body, build, clone_body, inputs, is_elementwise, is_generic, kinds, maps, outputs, yielded
from inferno.passes.programs import callee, root_of
from inferno.schedule.accesses import filled, loop_sizes, sink_constants
from inferno.schedule.attributes import ATTRIBUTE
from inferno.schedule.merge_calls import empty_like, inputs_of, merge_in, new_kernel, tell_sources
from inferno.target import find_target

_FLOATS = ("f32", "bf16", "f16")


@dataclass(frozen=True)
class _Sum:
    """A call of a kernel that is one sum over dimensions of its argument ``tensor``: of elements, or of squared distances from ``mean``, which is
    the mean, or where it is ``divided`` in the kernel a sum by that number.  ``after``: a map of each sum by itself behind it."""

    call: ir.Operation
    generic: ir.Operation
    tensor: ir.Value
    mean: ir.Value | None
    divided: float | None = None
    after: ir.Operation | None = None

    @property
    def shape(self) -> tuple:
        """What two sums of the same elements have in common."""
        place = next(i for i, v in enumerate(self.places) if v == self.tensor)
        return maps(self.generic)[place], maps(self.generic)[-1], kinds(self.generic)

    @property
    def places(self) -> list[ir.Value]:
        """What the inputs of the generic are in ``@main``."""
        return [self.call.operands[ir.BlockArgument(v).arg_number] for v in inputs(self.generic)]

    @property
    def result(self) -> ir.Value:
        return self.call.results[0]


def merge_variances(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    if find_target(target).kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        calls = [o.operation for o in main.entry_block.operations if o.operation.name == "func.call"]
        sums = [s for s in (_sum(c, kernels) for c in calls) if s is not None]
        pairs: dict[ir.Operation, tuple[_Sum, _Sum]] = {}  # by the first one's call
        for first, second in ((a, b) for b in sums for a in sums if _belong(a, b, kernels)):
            pairs.setdefault(first.call, (first, second))
        for replace in [_replacement(module, kernels, *p) for p in pairs.values()]:
            replace()
        return bool(pairs)

    merge_in(module, merge)


def _belong(first: _Sum, second: _Sum, kernels: dict[str, func.FuncOp]) -> bool:
    """Whether ``second`` is of distances from the mean of what ``first`` adds up."""
    if first.mean is not None or second.mean is None or first.tensor != second.tensor or first.shape != second.shape:
        return False
    if first.generic.results[0].type != second.generic.results[0].type:
        return False
    if second.divided is not None:
        found = second.divided if first.after is None and root_of(second.mean) == first.result else None
    elif first.after is not None:
        found = _quotient(first.after) if root_of(second.mean) == first.result else None
    else:
        mean = _mean(second.mean, kernels)
        found = mean[1] if mean is not None and mean[0] == first.call else None
    return found == _terms(first.generic)


def _terms(generic: ir.Operation) -> int:
    """Terms of a sum."""
    return prod(n for n, k in zip(loop_sizes(generic), kinds(generic)) if k != PARALLEL)


def _sum(call: ir.Operation, kernels: dict[str, func.FuncOp]) -> _Sum | None:
    kernel = kernels.get(callee(call))
    if kernel is None or ATTRIBUTE in kernel.attributes:
        return None
    generics = [o.operation for o in kernel.entry_block.operations if is_generic(o.operation)]
    after = generics.pop() if len(generics) == 2 and _is_after(generics[1], generics[0]) else None
    sizes = loop_sizes(generics[0]) if len(generics) == 1 else None
    if sizes is None or any(not isinstance(s, int) for s in sizes) or "linalg.index" in {o.name for o in body(generics[0]).operations}:
        return None
    (generic,) = generics
    block, given = body(generic), inputs(generic)
    if len(generic.results) != 1 or str(generic.results[0].type.element_type) != "f32" or any(not isinstance(v, ir.BlockArgument) for v in given):
        return None
    start, last = filled(outputs(generic)[0]), owner(yielded(generic)[0])
    if start is None or ir.FloatAttr(start).value != 0 or last is None or last.name != "arith.addf" or all(k == PARALLEL for k in kinds(generic)):
        return None
    running = block.arguments[len(given)]
    terms = [v for v in last.operands if v != running]
    if len(terms) != 1 or str(terms[0].type) != "f32":
        return None
    places = [call.operands[ir.BlockArgument(v).arg_number] for v in given]
    point = _point(terms[0], block)
    if point is not None and len(given) == 1:
        return _Sum(call, generic, places[point], None, None, after)
    square = owner(terms[0])
    if square is None or square.name != "arith.mulf" or square.operands[0] != square.operands[1] or len(given) != 2:
        return None
    distance = owner(square.operands[0])
    if distance is None or distance.name != "arith.subf":
        return None
    subtracted, divided = _divided(distance.operands[1])
    point, mean = _point(distance.operands[0], block), _point(subtracted, block)
    if point is None or mean is None or point == mean or maps(generic)[mean] != maps(generic)[-1] or str(given[mean].type.element_type) != "f32":
        return None
    return _Sum(call, generic, places[point], places[mean], divided, after)


def _is_after(after: ir.Operation, generic: ir.Operation) -> bool:
    """Whether a kernel's second operation is a map of each of the first one's sums by itself, and nothing else reads these."""
    plain = is_elementwise(after) and len(inputs(after)) == 1 and len(after.results) == 1 and len(set(map(str, maps(after)))) == 1
    return plain and list(inputs(after)) == list(generic.results) and all(u == after for u in users(generic.results[0])) and sink_constants(after)


def _divided(value: ir.Value) -> tuple[ir.Value, float | None]:
    """What a value of a body is a quotient of by a number, and that number; itself where it is none."""
    op = owner(value)
    count = owner(op.operands[1]) if op is not None and op.name == "arith.divf" else None
    if count is None or count.name != "arith.constant":
        return value, None
    return op.operands[0], ir.FloatAttr(count.attributes["value"]).value


def _quotient(generic: ir.Operation) -> float | None:
    """By which number a map divides its only input, if it does that."""
    value, number = _divided(yielded(generic)[0])
    return number if value == body(generic).arguments[0] else None


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
    number, made = _quotient(generics[0]), owner(root_of(inputs_of(call)[0]))
    return (made, number) if number is not None and made is not None and made.name == "func.call" else None


def _replacement(module: ir.Module, kernels: dict[str, func.FuncOp], first: _Sum, second: _Sum) -> Callable[[], None]:
    """What puts the two kernels' calls where the first sum's is."""
    needed = [s for s in (first, second) if s == second or any(u != second.call for u in users(first.result))]
    kernel = kernels[callee(first.call)]
    sums, rest = _sums_kernel(module, kernel, first), _rest_kernel(module, kernel, first, needed)

    def replace() -> None:
        with ir.InsertionPoint(first.call), first.call.location:
            wide = list(sums.type.results)
            made = func.CallOp(sums, [first.tensor, *(tensor.EmptyOp(list(t.shape), t.element_type).result for t in wide)]).operation
            found = func.CallOp(rest, [*made.results, *empty_like([s.result for s in needed])]).operation
        for new in (made, found):
            tell_sources(new, [first.call, second.call])
        for s, result in zip(needed, found.results):
            s.result.replace_all_uses_with(result)
        second.call.erase()
        first.call.erase()

    return replace


def _sums_kernel(module: ir.Module, kernel: func.FuncOp, first: _Sum) -> func.FuncOp:
    """Of the elements and of their squares."""
    f64, (points, sums, loops), location = ir.F64Type.get(), first.shape, first.generic.location
    result, contract = ir.RankedTensorType.get(first.result.type.shape, f64), ir.Attribute.parse("#arith.fastmath<contract>")
    new = new_kernel(module, kernel, "reduce_squares", [first.tensor.type], [result, result])
    x, *given = new.entry_block.arguments

    def add(values: list[ir.Value]) -> list[ir.Value]:
        wide = arith.extf(f64, values[0])
        square = arith.mulf(wide, wide, fastmath=contract)
        return [arith.addf(wide, values[1], fastmath=contract), arith.addf(square, values[2], fastmath=contract)]

    with ir.InsertionPoint(new.entry_block):
        zero = arith.constant(f64, 0.0)
        made = build([x], [linalg.fill(zero, outs=[v]) for v in given], [points, sums, sums], loops, add, location)
        func.ReturnOp(list(made.results))
    return new


def _rest_kernel(module: ir.Module, kernel: func.FuncOp, first: _Sum, needed: list[_Sum]) -> func.FuncOp:
    """What is ``needed`` of each point's: the sum, and the sum of squared distances, or the maps of these."""
    f32, f64, location = ir.F32Type.get(), ir.F64Type.get(), first.generic.location
    shape, terms = first.result.type.shape, float(_terms(first.generic))
    wide, identity = ir.RankedTensorType.get(shape, f64), ir.AffineMap.get_identity(len(shape))
    new = new_kernel(module, kernel, "squared_distances", [wide, wide], [s.result.type for s in needed])
    a, b, *given = new.entry_block.arguments

    def finish(values: list[ir.Value]) -> list[ir.Value]:
        total, squares, *_ = values
        below = arith.divf(arith.mulf(total, total), arith.constant(f64, terms))
        distances = arith.maximumf(arith.subf(squares, below), arith.constant(f64, 0.0))
        found = [arith.truncf(f32, total if s.mean is None else distances) for s in needed]
        return [v if s.after is None else clone_body(body(s.after), [v, None])[0] for s, v in zip(needed, found)]

    with ir.InsertionPoint(new.entry_block):
        rest = build([a, b], given, [identity] * (2 + len(needed)), [PARALLEL] * len(shape), finish, location)
        func.ReturnOp(list(rest.results))
    return new
