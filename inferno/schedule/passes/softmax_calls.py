"""Find softmaxes and logsumexps in a program of kernels: a maximum, and the sum of exponentials below it."""

from dataclasses import dataclass, replace
from math import inf

from inferno.mlir import arith, constant_number, func, ir, owner, users
from inferno.passes.generics import body, dims, inputs, is_elementwise, kinds, maps, outputs, yielded
from inferno.passes.programs import callee
from inferno.schedule.analysis.accesses import filled, loop_sizes
from inferno.schedule.analysis.combiners import read_combiner, term_of
from inferno.schedule.passes.calls import generics_of, inputs_of, may_change
from inferno.schedule.passes.edges import edges_of
from inferno.schedule.passes.merge_calls import joint_kernel
from inferno.schedule.passes.recompute_maps import compute_first, is_map


@dataclass(frozen=True)
class Softmax:
    """Calls of kernels in ``@main``: ``largest`` reduces, ``base`` replaces what is infinite by 0 if that is done, ``exponentials`` are made by themselves if
    the sum does not make them; ``total`` adds them up."""

    largest: ir.Operation
    base: ir.Operation | None
    exponentials: ir.Operation | None
    total: ir.Operation

    @property
    def readers(self) -> list[ir.Operation]:
        """Of exponentials, beside the sum."""
        return [] if self.exponentials is None else [u for u in dict.fromkeys(users(self.exponentials.results[0])) if u != self.total]

    @property
    def calls(self) -> list[ir.Operation]:
        return [c for c in (self.largest, self.base, self.exponentials, self.total) if c is not None]


def _reduction(kernel: func.FuncOp | None, name: str, start: float) -> ir.Operation | None:
    """The only operation of a kernel, if that reduces float32 by ``name``."""
    generics = generics_of(kernel) if may_change(kernel) else []
    if len(generics) != 1 or len(generics[0].results) != 1 or "linalg.index" in {o.operation.name for o in body(generics[0]).operations}:
        return None
    (generic,) = generics
    first, sizes = filled(outputs(generic)[0]), loop_sizes(generic)
    combiner = read_combiner(body(generic), body(generic).arguments[len(inputs(generic))])
    if sizes is None or 0 in sizes or combiner is None or combiner.name != name or str(combiner.narrow) != "f32":
        return None
    known = first is not None and ir.FloatAttr(first).value == start and all(isinstance(v, ir.BlockArgument) for v in inputs(generic))
    return generic if known else None


def is_largest(kernel: func.FuncOp | None) -> bool:
    """Whether a kernel is the maximum of rows, and starts from minus infinity."""
    return _reduction(kernel, "arith.maximumf", -inf) is not None


def find_softmax(module: ir.Module, kernels: dict[str, func.FuncOp], largest: ir.Operation) -> Softmax | None:
    """What sums exponentials of elements below their largest one, if there is one such sum of the very same elements."""
    bases = [(largest, None), *((u, u) for u in users(largest.results[0]) if _replaces_infinity(u, kernels))]
    for made, base in bases:
        for reader in dict.fromkeys(users(made.results[0])):
            if reader.name != "func.call" or made.results[0] not in inputs_of(reader):
                continue
            if is_map(kernels.get(callee(reader))):
                totals = [(reader, u) for u in dict.fromkeys(users(reader.results[0])) if u.name == "func.call"]
            else:
                totals = [(None, reader)]
            for exponentials, total in totals:
                found = Softmax(largest, base, exponentials, total)
                if _reduction(kernels.get(callee(total)), "arith.addf", 0.0) is not None and _is_softmax(module, kernels, found):
                    return found
    return None


def _replaces_infinity(call: ir.Operation, kernels: dict[str, func.FuncOp]) -> bool:
    """Whether a call is a map of each number to itself, or 0 where that is infinite."""
    kernel = kernels.get(callee(call)) if call.name == "func.call" else None
    generics = generics_of(kernel) if may_change(kernel) else []
    if len(generics) != 1 or not is_elementwise(generics[0]) or len(inputs(generics[0])) != 1 or len(set(map(str, maps(generics[0])))) != 1:
        return False
    (x, *_), choice = body(generics[0]).arguments, owner(yielded(generics[0])[0])
    if choice is None or choice.name != "arith.select" or choice.operands[2] != x or constant_number(choice.operands[1]) != 0:
        return False
    question = owner(choice.operands[0])
    if question is None or question.name != "arith.cmpf" or constant_number(question.operands[1]) != inf:
        return False
    size = owner(question.operands[0])
    while size is not None and size.name == "arith.extf":
        size = owner(size.operands[0])
    equal = ir.IntegerAttr(question.attributes["predicate"]).value == int(arith.CmpFPredicate.OEQ)
    return equal and size is not None and size.name == "math.absf" and size.operands[0] == x


def _is_softmax(module: ir.Module, kernels: dict[str, func.FuncOp], found: Softmax) -> bool:
    """Whether the sum is of exponentials of the largest's own terms, less the largest."""
    if found.exponentials is None:
        kernel, made = kernels[callee(found.total)], inputs_of(found.total)
        return _is_below(kernel, made, found, kernels)
    edges = replace(edges_of([found.exponentials, found.total], views=False), exported=(found.total.results[0],))  # as these take it: in another shape, too
    kernel = joint_kernel(module, kernels, edges)
    right = compute_first(kernel) and _is_below(kernel, list(edges.captured), found, kernels)
    kernel.operation.erase()
    return right


def _is_below(kernel: func.FuncOp, made: list[ir.Value], found: Softmax, kernels: dict[str, func.FuncOp]) -> bool:
    """The same of a kernel that sums exponentials which it makes, of values ``made`` in ``@main``."""
    sums = _reduction(kernel, "arith.addf", 0.0)
    (first,) = generics_of(kernels[callee(found.largest)])
    loops = _loops(sums, made, first, inputs_of(found.largest)) if sums is not None else None
    if loops is None or [kinds(first)[n] for n in loops] != kinds(sums) or _walked(sums, -1, loops) != _walked(first, -1):
        return False
    power = owner(term_in(sums))
    difference = owner(power.operands[0]) if power is not None and power.name == "math.exp" else None
    if difference is None or difference.name != "arith.subf" or str(difference.results[0].type) != "f32":
        return False
    mine = _leaves(sums, made, loops)
    if mine.get(difference.operands[1]) != ((found.base or found.largest).results[0], _walked(first, -1)):
        return False
    return _same(difference.operands[0], term_in(first), mine, _leaves(first, inputs_of(found.largest)))


def _loops(sums: ir.Operation, made: list[ir.Value], first: ir.Operation, others: list[ir.Value]) -> list[int] | None:
    """Which loop of ``first`` each of the sum's is, by a tensor that both read whole; None where there is none or a map is more than loops."""
    if any(dims(m) is None for g in (sums, first) for m in maps(g)):
        return None
    for value, map_ in zip(inputs(first), maps(first)):
        for other, also in zip(inputs(sums), maps(sums)):
            same = made[ir.BlockArgument(other).arg_number] == others[ir.BlockArgument(value).arg_number]
            if same and map_.is_permutation and also.is_permutation:
                return [n for _, n in sorted(zip(dims(also), dims(map_)))]
    return None


def _walked(generic: ir.Operation, operand: int, loops: list[int] | None = None) -> tuple[int, ...]:
    """The loops that walk over an operand, by another operation's numbers where ``loops`` has these."""
    found = dims(maps(generic)[operand])
    return tuple(found if loops is None else [loops[d] for d in found])


def term_in(generic: ir.Operation) -> ir.Value:
    """What a reduction with one result takes in of each point."""
    return term_of(body(generic), body(generic).arguments[len(inputs(generic))])


def _leaves(generic: ir.Operation, made: list[ir.Value], loops: list[int] | None = None) -> dict[ir.Value, tuple[ir.Value, tuple[int, ...]]]:
    """What the arguments of a body are in ``@main``, and which loops walk over them."""
    every = enumerate(zip(body(generic).arguments, inputs(generic)))
    return {a: (made[ir.BlockArgument(v).arg_number], _walked(generic, i, loops)) for i, (a, v) in every}


def _same(a: ir.Value, b: ir.Value, mine: dict, others: dict) -> bool:
    """Whether two bodies compute the same number."""
    if a in mine or b in others:
        return a in mine and b in others and mine[a] == others[b]
    x, y = owner(a), owner(b)
    if x is None or y is None or x.name != y.name or len(x.operands) != len(y.operands) or len(x.regions) or len(x.results) != 1 or a.type != b.type:
        return False
    if {n: str(x.attributes[n]) for n in x.attributes} != {n: str(y.attributes[n]) for n in y.attributes}:
        return False
    return all(_same(v, w, mine, others) for v, w in zip(x.operands, y.operands))
