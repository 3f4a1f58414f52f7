"""On a GPU, fuse small kernels that follow each other into one, whose only block of threads goes through them with barriers in place of launches.

A call begins a group; what makes what the group reads, or reads that or what it makes, joins it where one block takes less time for it than a launch of its own
does.  It is done where that is estimated to be faster for all of them together.
"""

from dataclasses import dataclass, field

from inferno.mlir import func, ir, owner, walk
from inferno.passes.generics import is_reduction
from inferno.passes.programs import callee, readers, root_of
from inferno.passes.shapes import function_of
from inferno.schedule.attributes import ATTRIBUTE, to_attribute
from inferno.schedule.composite import one_block
from inferno.schedule.passes.calls import inputs_of, places_in
from inferno.schedule.passes.edges import edges_of, wait_for_each_other
from inferno.schedule.passes.kernel_times import alone
from inferno.schedule.passes.mark_overwrites import updated
from inferno.schedule.passes.merge_calls import defer, joint_kernel, replace_calls
from inferno.schedule.passes.rewrite import merge_in
from inferno.target import Target, find_target

KIND = "inferno.kind"
"""On an argument of ``@main``: what it is to the model."""

_MOST = 24  # kernels that become one
_LEVEL = 0.25  # microseconds of a reduction that others of its kernel wait for


@dataclass(frozen=True)
class _Cost:
    """Microseconds of a kernel by itself, and as a part of a block's program."""

    alone: float
    part: float


@dataclass
class _Program:
    module: ir.Module
    kernels: dict[str, func.FuncOp]
    target: Target
    always: bool
    costs: dict[str, _Cost | None] = field(default_factory=dict)

    def cost(self, call: ir.Operation) -> _Cost | None:
        """None for a call that stays by itself."""
        name = callee(call) if call.name == "func.call" else ""
        if name not in self.costs:
            kernel = self.kernels.get(name)
            takes = kernel is not None and one_block.fits(kernel)
            found = _Cost(_apart(kernel, self.target), one_block.work(kernel)) if takes else None
            self.costs[name] = found if found is not None and (self.always or found.part < found.alone) else None
        found = self.costs[name]
        return found if found is not None and not _changes_state(call, self.kernels[name]) else None


def _changes_state(call: ir.Operation, kernel: func.FuncOp) -> bool:
    """Whether a call may write to something that the program keeps, a count or a weight, which it could not as a part of another kernel."""
    main = function_of(call)
    kinds = [ir.DictAttr(a) for a in main.attributes["arg_attrs"]] if "arg_attrs" in main.attributes else []
    changed = [ir.BlockArgument(root_of(call.operands[n])).arg_number for n in updated(call, kernel)]
    return any(not kinds or KIND not in kinds[n] or ir.StringAttr(kinds[n][KIND]).value != "input" for n in changed)


def fuse_small(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels; nothing for targets other than GPUs.  ``always``: "1" for doing so wherever that can be."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        program = _Program(module, kernels, machine, always == "1")
        refused: set[ir.Operation] = set()
        changed, places, single = False, places_in(main), set()
        while (group := _group(program, places, refused, single)) is not None:
            if _fuse(program, group, refused):
                changed, places, single = True, places_in(main), set()
        return changed

    merge_in(module, merge)


def _group(
    program: _Program, places: dict[ir.Operation, int], refused: set[ir.Operation], single: set[ir.Operation],
) -> list[ir.Operation] | None:
    """The next calls that belong together, in their order; None behind the last ones.  ``single``: those of which it is known that none belongs to them,
    which stays so as long as nothing is fused."""
    for head in places:
        if head in single or head in refused:
            continue
        if program.cost(head) is None:
            single.add(head)
            continue
        calls = [head]
        while len(calls) < _MOST and (joins := _next(program, calls, refused, places)) is not None:
            calls = sorted([*calls, joins], key=places.__getitem__)
        if len(calls) > 1:
            return calls
        single.add(head)
    return None


def _next(program: _Program, calls: list[ir.Operation], refused: set[ir.Operation], places: dict[ir.Operation, int]) -> ir.Operation | None:
    """A call that gives the group something, takes something from it or reads what it reads, and waits for nothing that waits for the group."""
    read = {root_of(v) for c in calls for v in inputs_of(c)}
    near = {owner(v) for v in read} | {u for v in (*read, *(r for c in calls for r in c.results)) for u in readers(v)}
    able = [c for c in near if c in places and c not in calls and c not in refused and program.cost(c) is not None]
    for call in sorted(able, key=places.__getitem__):
        if not wait_for_each_other({*calls, call}):
            return call
    return None


def _fuse(program: _Program, calls: list[ir.Operation], refused: set[ir.Operation]) -> bool:
    """Make calls one, if that pays; otherwise none of them is looked at again.  Where none waits for another one, blocks beside each other are better (see
    ``bundle_kernels``)."""
    made = {r for c in calls for r in c.results}
    if not any(root_of(v) in made for c in calls for v in inputs_of(c)):
        refused.update(calls)
        return False
    edges = edges_of(calls, views=True)
    merged = joint_kernel(program.module, program.kernels, edges, "small_")
    joined, apart = one_block.estimate(merged), sum(program.cost(c).alone for c in calls)
    # Of eleven programs on an H200 one of the nine that took less time so was estimated to take more, and both that took more.
    if not program.always and joined >= apart:
        merged.operation.erase()
        refused.update(calls)
        return False
    merged.attributes[ATTRIBUTE] = to_attribute(one_block.pick(merged))
    defer(edges)
    replace_calls(edges, merged)
    return True


def _apart(kernel: func.FuncOp, target: Target) -> float:
    """Microseconds of a kernel by itself: of several operations on rows those with their reductions."""
    reductions = sum(is_reduction(o) for o in walk(kernel, "linalg.generic"))
    return alone(kernel, target) + _LEVEL * max(0, reductions - 1)
