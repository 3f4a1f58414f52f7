"""On a GPU, compute a sum and the sum of squared distances from its mean in one kernel that reads the tensor once.

The kernel adds up elements and their squares in float64, where a square of a float32 is exact: what the difference of the two sums loses is as much as
the mean is larger than the deviation, squared, of 2^-53, and so below what the rounding of float32 distances loses.  A second kernel, of a few
elements, makes what the two made, and a map of each sum behind them; ``fuse-sum-maps`` puts it where the sums come together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from inferno.mlir import arith, constant_number, func, ir, linalg, owner, tensor, users
from inferno.passes.generics import PARALLEL, body, build, clone_body, inputs, is_elementwise, is_generic, is_reduction, kinds, maps, outputs, yielded
from inferno.passes.programs import callee, operations_in, root_of
from inferno.passes.shapes import argument_attributes, function_of, number, symbol_arguments
from inferno.passes.size_values import materialise, sizes
from inferno.schedule.analysis.accesses import filled, loop_sizes, sink_constants
from inferno.schedule.passes.calls import calls_in, empty_like, inputs_of, is_open, new_kernel, tell_sources, tensors_of
from inferno.schedule.passes.rewrite import merge_in
from inferno.size_forms import substitute
from inferno.symbolic import Int, Symbol, maximum, product
from inferno.target import find_target

_FLOATS = ("f32", "bf16", "f16")


@dataclass(frozen=True)
class _Sum:
    """A call of a kernel that is one sum over dimensions of its argument ``tensor``: of elements, or of squared distances from ``mean``, which is
    the mean, or where it is ``divided`` in the kernel a sum by that number.  Both are inputs of the generic, by number: another sum's result is another
    value once that is replaced.  ``after``: a map of each sum by itself behind it.  Sizes that vary are in the kernel's symbols, of which ``main`` are the
    program's."""

    call: ir.Operation
    generic: ir.Operation
    point: int
    subtracted: int | None = None
    divided: float | Int | None = None
    after: ir.Operation | None = None
    main: Mapping[Symbol, Int] = field(default_factory=dict)

    @property
    def shape(self) -> tuple:
        """What two sums of the same elements have in common."""
        return maps(self.generic)[self.point], maps(self.generic)[-1], kinds(self.generic)

    @property
    def tensor(self) -> ir.Value:
        return self.places[self.point]

    @property
    def mean(self) -> ir.Value | None:
        return None if self.subtracted is None else self.places[self.subtracted]

    @property
    def places(self) -> list[ir.Value]:
        """What the inputs of the generic are in ``@main``."""
        return [self.call.operands[ir.BlockArgument(v).arg_number] for v in inputs(self.generic)]

    @property
    def result(self) -> ir.Value:
        return self.call.results[0]

    @property
    def terms(self) -> Int:
        """Of one sum."""
        return product(n for n, k in zip(loop_sizes(self.generic), kinds(self.generic)) if k != PARALLEL)


def merge_variances(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    if find_target(target).kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        calls = calls_in(main)
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
        found = _quotient(first.after, first.main) if root_of(second.mean) == first.result else None
    else:
        mean = _mean(second.mean, kernels)
        found = mean[1] if mean is not None and mean[0] == first.call else None
    return found == substitute(first.terms, first.main)


def _sum(call: ir.Operation, kernels: dict[str, func.FuncOp]) -> _Sum | None:
    kernel = kernels.get(callee(call))
    main = _symbols_in_main(call, kernel) if is_open(kernel) else None
    if main is None:
        return None
    generics = [o for o in operations_in(kernel) if is_generic(o)]
    after = generics.pop() if len(generics) == 2 and _is_after(generics[1], generics[0]) else None
    sizes = loop_sizes(generics[0]) if len(generics) == 1 else None
    if sizes is None or "linalg.index" in {o.name for o in body(generics[0]).operations}:
        return None
    (generic,) = generics
    block, given = body(generic), inputs(generic)
    if len(generic.results) != 1 or str(generic.results[0].type.element_type) != "f32" or any(not isinstance(v, ir.BlockArgument) for v in given):
        return None
    start, last = filled(outputs(generic)[0]), owner(yielded(generic)[0])
    if start is None or ir.FloatAttr(start).value != 0 or last is None or last.name != "arith.addf" or not is_reduction(generic):
        return None
    running = block.arguments[len(given)]
    terms = [v for v in last.operands if v != running]
    if len(terms) != 1 or str(terms[0].type) != "f32":
        return None
    point = _point(terms[0], block)
    if point is not None and len(given) == 1:
        return _Sum(call, generic, point, after=after, main=main)
    square = owner(terms[0])
    if square is None or square.name != "arith.mulf" or square.operands[0] != square.operands[1] or len(given) != 2:
        return None
    distance = owner(square.operands[0])
    if distance is None or distance.name != "arith.subf":
        return None
    subtracted, divided = _divided(distance.operands[1], main)
    point, mean = _point(distance.operands[0], block), _point(subtracted, block)
    if point is None or mean is None or point == mean or maps(generic)[mean] != maps(generic)[-1] or str(given[mean].type.element_type) != "f32":
        return None
    return _Sum(call, generic, point, mean, divided, after, main)


def _symbols_in_main(call: ir.Operation, kernel: func.FuncOp) -> dict[Symbol, Int] | None:
    """The symbols of a called kernel as sizes of the program; None where they are not computed of its symbols."""
    found = {s: number(call.operands[v.arg_number]) for s, v in symbol_arguments(kernel.operation).items()}
    return None if None in found.values() else found


def _is_after(after: ir.Operation, generic: ir.Operation) -> bool:
    """Whether a kernel's second operation is a map of each of the first one's sums by itself, and nothing else reads these."""
    plain = is_elementwise(after) and len(inputs(after)) == 1 and len(after.results) == 1 and len(set(map(str, maps(after)))) == 1
    return plain and list(inputs(after)) == list(generic.results) and all(u == after for u in users(generic.results[0])) and sink_constants(after)


def _divided(value: ir.Value, main: Mapping[Symbol, Int]) -> tuple[ir.Value, float | Int | None]:
    """What a value of a body is a quotient of by a number or a size, and that, of the program's symbols; itself where it is none."""
    op = owner(value)
    if op is not None and op.name == "arith.divf" and (known := constant_number(op.operands[1])) is not None:
        return op.operands[0], known
    count = owner(op.operands[1]) if op is not None and op.name == "arith.divf" else None
    size = number(count.operands[0]) if count is not None and count.name == "arith.sitofp" else None
    return (value, None) if size is None else (op.operands[0], substitute(size, main))


def _quotient(generic: ir.Operation, main: Mapping[Symbol, Int]) -> float | Int | None:
    """By which number a map divides its only input, if it does that."""
    value, by = _divided(yielded(generic)[0], main)
    return by if value == body(generic).arguments[0] else None


def _point(value: ir.Value, block: ir.Block) -> int | None:
    """Which argument of the block a value is, maybe widened."""
    op = owner(value)
    if op is not None and op.name == "arith.extf":
        value = op.operands[0]
    found = [i for i, a in enumerate(block.arguments) if a == value]
    return found[0] if found and str(value.type) in _FLOATS else None


def _mean(value: ir.Value, kernels: dict[str, func.FuncOp]) -> tuple[ir.Operation, float | Int] | None:
    """The call whose result ``value`` is by a number of terms, and that number."""
    call = owner(root_of(value))
    kernel = kernels.get(callee(call)) if call is not None and call.name == "func.call" else None
    generics = [o for o in operations_in(kernel) if is_generic(o)] if kernel is not None else []
    main = _symbols_in_main(call, kernel) if kernel is not None else None
    if main is None or len(generics) != 1 or not is_elementwise(generics[0]) or len(tensors_of(call)) != 1 or len(set(map(str, maps(generics[0])))) != 1:
        return None
    by, made = _quotient(generics[0], main), owner(root_of(tensors_of(call)[0]))
    return (made, by) if by is not None and made is not None and made.name == "func.call" else None


def _replacement(module: ir.Module, kernels: dict[str, func.FuncOp], first: _Sum, second: _Sum) -> Callable[[], None]:
    """What puts the two kernels' calls where the first sum's is."""
    needed = [s for s in (first, second) if s == second or any(u != second.call for u in users(first.result))]
    kernel = kernels[callee(first.call)]
    sums, rest = _sums_kernel(module, kernel, first), _rest_kernel(module, kernel, first, needed)

    def replace() -> None:
        with ir.InsertionPoint(first.call), first.call.location:
            given, to = _sizes(first), sizes(first.result, function_of(first.call))
            wide = [tensor.EmptyOp(to, t.element_type).result for t in sums.type.results]
            made = func.CallOp(sums, [*given, first.tensor, *wide]).operation
            found = func.CallOp(rest, [*given, *made.results, *empty_like([s.result for s in needed])]).operation
        for new in (made, found):
            tell_sources(new, [first.call, second.call])
        for s, result in zip(needed, found.results):
            s.result.replace_all_uses_with(result)
        second.call.erase()
        first.call.erase()

    return replace


def _sizes(first: _Sum) -> list[ir.Value]:
    """The sizes that a call takes."""
    return [v for v in inputs_of(first.call) if isinstance(v.type, ir.IndexType)]


def _kernel(
    module: ir.Module, kernel: func.FuncOp, name: str, given: Sequence[ir.Type], made: Sequence[ir.Type], like: Sequence[ir.Value],
) -> func.FuncOp:
    """A kernel without operations, of the sizes of a sum's and of tensors, which are ``like`` arguments of that."""
    indices = [v for v in kernel.entry_block.arguments if isinstance(v.type, ir.IndexType)]
    new = new_kernel(module, kernel, name, [*(v.type for v in indices), *given], made)
    if indices:
        said = argument_attributes(kernel.operation)
        new.attributes["arg_attrs"] = ir.ArrayAttr.get([said[ir.BlockArgument(v).arg_number] for v in (*indices, *like)])
    return new


def _sums_kernel(module: ir.Module, kernel: func.FuncOp, first: _Sum) -> func.FuncOp:
    """Of the elements and of their squares."""
    f64, (points, sums, loops), location = ir.F64Type.get(), first.shape, first.generic.location
    result, contract = ir.RankedTensorType.get(first.result.type.shape, f64), ir.Attribute.parse("#arith.fastmath<contract>")
    given, to = inputs(first.generic)[0], list(kernel.entry_block.arguments)[-1]
    new = _kernel(module, kernel, "reduce_squares", [first.tensor.type], [result, result], [given, to, to])
    x, *given = list(new.entry_block.arguments)[-3:]

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
    shape, terms = first.result.type.shape, maximum(first.terms, 1)  # of none the distances are 0
    wide, identity = ir.RankedTensorType.get(shape, f64), ir.AffineMap.get_identity(len(shape))
    to = list(kernel.entry_block.arguments)[-1]
    new = _kernel(module, kernel, "squared_distances", [wide, wide], [s.result.type for s in needed], [to] * (2 + len(needed)))
    a, b, *given = list(new.entry_block.arguments)[-2 - len(needed):]

    def finish(values: list[ir.Value]) -> list[ir.Value]:
        total, squares, *_ = values
        by = arith.constant(f64, float(terms)) if isinstance(terms, int) else arith.sitofp(f64, count)
        below = arith.divf(arith.mulf(total, total), by)
        distances = arith.maximumf(arith.subf(squares, below), arith.constant(f64, 0.0))
        found = [arith.truncf(f32, total if s.mean is None else distances) for s in needed]
        return [v if s.after is None else clone_body(body(s.after), [v, None])[0] for s, v in zip(needed, found)]

    with ir.InsertionPoint(new.entry_block):
        count = None if isinstance(terms, int) else arith.index_cast(ir.IntegerType.get_signless(64), materialise(terms, symbol_arguments(new.operation)))
        rest = build([a, b], given, [identity] * (2 + len(needed)), [PARALLEL] * len(shape), finish, location)
        func.ReturnOp(list(rest.results))
    return new
