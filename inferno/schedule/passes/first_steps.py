"""First steps from zeros, of which fusion makes other kernels than of the following steps: they are compared by what they compute."""

from inferno.mlir import arith, func, ir, linalg, owner, run_upstream, tensor
from inferno.passes.programs import callee, returned
from inferno.passes.split_contractions import split_contractions
from inferno.schedule.analysis.expression_tracer import NotUnderstood, Tracer
from inferno.schedule.analysis.expressions import place_of
from inferno.schedule.passes.calls import inputs_of, may_change
from inferno.schedule.passes.equal_steps import Begins, EqualSteps, State, Steps
from inferno.schedule.passes.inline_steps import Inline, inline_step

_MOST = 16  # calls of a step


def from_zeros(found: EqualSteps, steps: Steps, initial: dict[State, ir.Value]) -> list[ir.Operation]:
    """The calls that make the states which the first step reads, in order, if they do what a step in front of it does to states of zeros; none if they
    do anything else."""
    known = list(dict.fromkeys(found.external(steps)))
    calls = _calls_behind(found, list(initial.values()), set(known))
    if not calls:
        return []
    states = list(initial)
    with ir.Location.unknown():
        module = ir.Module.create()
        given, made = [v.type for v in known], [initial[s].type for s in states] * 2
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("both", ([*given, *made], made))
        values = dict(zip(known, function.add_entry_block().arguments))
        ahead = Steps(steps.calls, steps.carried, steps.apart, initial)
        with ir.InsertionPoint(function.entry_block):
            step = arith.constant(ir.IndexType.get(), 0)
            ours = inline_step(found, ahead, values, {}, {s: zeros_like(initial[s].type) for s in states}, step)
            theirs = _inline_calls(found, calls, values, step)
            func.ReturnOp([*(ours[s] for s in states), *(theirs[initial[s]] for s in states)])
        split_contractions(module)
        run_upstream(module, "func.func(linalg-generalize-named-ops,canonicalize,cse)")
        return calls if _are_equal(module.body.operations[0]) else []


def zeros_like(type_: ir.Type) -> ir.Value:
    """A tensor of zeros, at the insertion point."""
    element = type_.element_type
    zero = arith.constant(element, 0.0 if isinstance(element, ir.FloatType) else 0)
    return linalg.fill(zero, outs=[tensor.EmptyOp(list(type_.shape), element).result])


def _calls_behind(found: EqualSteps, values: list[ir.Value], known: set[ir.Value]) -> list[ir.Operation]:
    """The calls that make these values of ``known`` ones, in order; none if there are other ones, or too many."""
    calls: set[ir.Operation] = set()
    pending = list(values)
    while pending:
        value, _ = found.path(pending.pop())
        op = owner(value)
        if value in known or op in calls:
            continue
        if op is None or op.name != "func.call" or len(calls) == _MOST or not may_change(found.kernels.get(callee(op))):
            return []
        calls.add(op)
        pending += inputs_of(op)
    return sorted(calls, key=lambda c: sum(c != o and not c.is_before_in_block(o) for o in calls))


def _inline_calls(found: EqualSteps, calls: list[ir.Operation], known: dict[ir.Value, ir.Value], step: ir.Value) -> dict[ir.Value, ir.Value]:
    known, begins = dict(known), {}
    for op in [*calls, *(p for c in calls for v in inputs_of(c) for p in found.path(v)[1] if p.name == "func.call")]:
        begins.update({(op, k): offsets for k, offsets in enumerate(found.text(callee(op))[1])})
    still: Begins = {key: (0,) * len(begin) for key, begin in begins.items()}
    inline = Inline(found, begins, still, {}, step)
    for call in calls:
        made = inline.call(call, [inline.viewed(v, known[found.path(v)[0]]) for v in inputs_of(call)])
        known.update(zip(call.results, made))
    return known


def _are_equal(function: func.FuncOp) -> bool:
    """Whether the first half of a function's results is the second."""

    def read(tracer: Tracer) -> bool:
        values = returned(function)
        half = len(values) // 2
        for a, b in zip(values[:half], values[half:]):
            loops = [tracer.loops(("along", d), size) for d, size in enumerate(a.type.shape)]
            if any(len(own) > 1 for own in loops):
                raise NotUnderstood
            where = [place_of(own) for own in loops]
            if tracer.element(a, where) is not tracer.element(b, where):
                return False
        return True

    return Tracer(function).run(read) is True
