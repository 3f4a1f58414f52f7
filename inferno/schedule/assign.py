"""Choose a schedule for every kernel: the first one that a generator's cost model offers."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from inferno.errors import PassError
from inferno.mlir import func, ir, owner, walk
from inferno.options import MATMUL, MATMULS
from inferno.passes.programs import callee, frozen_weights, main_and_kernels, root_of
from inferno.schedule import spaces
from inferno.schedule.analysis.unchanged import read_by_text, unchanged
from inferno.schedule.attributes import ATTRIBUTE, GENERATORS, from_attribute, module_of, to_attribute
from inferno.schedule.known import key_of, set_asked, take_known
from inferno.schedule.matmul.cublaslt import refusal
from inferno.schedule.matmul.weigh_library import weigh
from inferno.schedule.passes.calls import inputs_of
from inferno.schedule.passes.edges import waits
from inferno.symbolic import Undecided
from inferno.target import Target, find_target

# In order of preference: the first whose ``choose(kernel, target)`` returns a schedule takes the kernel.
_NVPTX = (
    "matmul.cublaslt", "convolution.tap_sums", "convolution.group_windows", "convolution.staged_windows", "convolution.band_windows",
    "convolution.windows", "matmul.small_products", "reductions.sized_sums", "composite.by_size", "composite.siblings",
    "convolution.im2col", "convolution.channel_sums", "convolution.pixel_sums", "matmul.direct", "reductions.long_sums",
    "reductions.batch_sums", "matmul.short_vectors", "matmul.vectors", "matmul.wgmma", "attention.short_attention",
    "attention.attention", "attention.attention_gradients", "recurrence.recurrence", "matmul.grouped", "matmul.dual",
    "matmul.dual_bf16x6", "matmul.dual_vectors", "matmul.wgmma_rows", "matmul.mma", "matmul.direct_bf16x6", "matmul.presplit",
    "matmul.bf16x6", "matmul.simt", "rows.short_rows", "reductions.reductions", "rows.columns", "rows.sized_columns", "rows.transposed_rows", "rows.grid_rows",
    "rows.rows", "rows.sized_rows", "scans.scans", "scans.sized_scans", "sorts.select", "sorts.short_sorts", "sorts.sorts",
    "scatters.scatters", "scatters.matched_rows", "scatters.sorted_rows", "scatters.row_sums", "maps.boxes", "maps.elementwise", "universal.universal",
)
_CHOOSERS = {
    kind: tuple(f"inferno.schedule.{name}" for name in names) for kind, names in (("nvptx", _NVPTX), ("cpu", ("cpu.library", "cpu.loops")))
}


# On a kernel that a library was asked for: why it does not compute it.  On one that the last generator has: what could not be asked of others.
NO_LIBRARY, UNDECIDED = "inferno.no_library", "inferno.undecided"
_LAST = "universal"  # takes what no other generator does
# Asked by matmul="library" alone: otherwise it is weighed against what the others choose, or was measured.
_ON_DEMAND = module_of("cublaslt")


def assign_schedules(module: ir.Module, target: str) -> None:
    """Set ``inferno.schedule`` on each kernel that has none yet; a schedule that is already there is kept.  A module with ``inferno.matmul``
    says what computes its contractions, and does not after this: "library", "generated", or "auto", which is what is faster of both by their
    estimates.  Without, those are kernels of ours: there may be no library.

    What was measured to be best, which the module says as ``inferno.known``, goes before what the model picks; then the module says in
    its place what was asked for, as ``inferno.asked``.
    """
    machine, matmul, weighs = find_target(target), "auto", False
    if MATMUL in module.operation.attributes:
        matmul = ir.StringAttr(module.operation.attributes[MATMUL]).value
        if matmul not in MATMULS:
            raise PassError(f"assign-schedules: {MATMUL} is {matmul!r}; expected one of {', '.join(MATMULS)}")
        del module.operation.attributes[MATMUL]
        weighs = matmul == "auto"
    known = take_known(module)
    keys = {k.name.value: key_of(k) for k in kernels(module) if ATTRIBUTE not in k.attributes} if known is not None else {}
    chosen = []
    for kernel in kernels(module):
        if ATTRIBUTE not in kernel.attributes:
            undecided: list[str] = []
            own = choose(kernel, machine, matmul, undecided)
            if undecided and own.generator == _LAST:
                kernel.attributes[UNDECIDED] = ir.StringAttr.get("; ".join(undecided), kernel.context)
            found = (read_known(kernel, text, machine) for text in known.get(keys[kernel.name.value], "").splitlines()) if known else ()
            schedule = next((s for s in found if s is not None and _allowed(s, own, matmul)), own)
            kernel.attributes[ATTRIBUTE] = to_attribute(schedule)
            if schedule is own:
                chosen.append((kernel, own))
            if matmul == "library" and machine.kind == "nvptx" and (reason := refusal(kernel)):
                kernel.attributes[NO_LIBRARY] = ir.StringAttr.get(reason, kernel.context)
    if weighs and chosen:
        together, prepared = _siblings(module), _prepared(module)
        for kernel, own in chosen:
            name = kernel.name.value
            if name not in together and (found := weigh(kernel, own, machine, name in prepared)) is not None:
                kernel.attributes[ATTRIBUTE] = to_attribute(found)
    if known is not None:
        set_asked(module, keys)


def _siblings(module: ir.Module) -> set[str]:
    """The kernels of which a call reads what another call of one like it reads, and neither waits for the other: with kernels of ours they may become one
    launch."""
    main, named = main_and_kernels(module)
    alike = {name for name, kernel in named.items() if ATTRIBUTE in kernel.attributes and "generator" in kernel.attributes[ATTRIBUTE]
             and ir.StringAttr(kernel.attributes[ATTRIBUTE]["generator"]).value == "wgmma"}
    found: set[str] = set()
    operations = [o.operation for o in main.regions[0].blocks[0].operations] if main is not None else []
    readers: dict[ir.Value, list[ir.Operation]] = {}
    for call in [op for op in operations if op.name == "func.call" and callee(op) in alike]:
        made = {owner(root_of(v)) for v in inputs_of(call)}
        for value in {root_of(v) for v in inputs_of(call)}:
            for other in readers.setdefault(value, []):
                if other not in made and not waits(call, {other}):
                    found |= {callee(call), callee(other)}
            readers[value].append(call)
    return found


def _prepared(module: ir.Module) -> set[str]:
    """The kernels of which a call reads a weight that ``prepare-operands`` may give another form."""
    main, _ = main_and_kernels(module)
    frozen = frozen_weights(main) if main is not None else []
    calls = walk(main, "func.call") if frozen else ()
    return {callee(call) for call in calls if any(root_of(v) in frozen for v in inputs_of(call))}


def _allowed(schedule: Any, own: Any, matmul: str) -> bool:
    """Whether the option lets a kernel have a schedule that was measured, in the place of the model's."""
    multiplies = getattr(schedule, "multiplies", False)
    return not (matmul == "generated" and multiplies) and not (matmul == "library" and getattr(own, "multiplies", False) and not multiplies)


def read_known(kernel: func.FuncOp, text: str, target: Target) -> Any | None:
    """The schedule that ``text``, an attribute, stands for; None if there is none, or it is another version's and not one that the kernel can
    have now."""
    try:
        schedule = from_attribute(ir.Attribute.parse(text, kernel.context)) if text else None
        fits = schedule is not None and schedule.generator in generators(target.kind) and spaces.is_valid(kernel, schedule, target)
    except (PassError, ir.MLIRError, Undecided, ValueError, TypeError, ArithmeticError):
        return None
    return schedule if fits else None


def choosers(target: Target) -> tuple[str, ...]:
    """The modules whose ``choose`` is asked for a schedule, in order; the last one takes every kernel."""
    return _CHOOSERS[target.kind]


def chooser_of(generator: str, target: Target) -> Callable[[func.FuncOp, Target], Any | None] | None:
    """What chooses a schedule for a generator, for passes that merge kernels for it; None where the target has no such generator."""
    module = module_of(generator)
    return import_module(module).choose if module in _CHOOSERS[target.kind] else None


def generators(kind: str) -> list[str]:
    """The names of the generators for a kind of target; the last one takes every kernel."""
    names = (name.rpartition(".")[2] for name in _CHOOSERS[kind])
    return [name for name in names if name in GENERATORS]  # others, such as ``long_sums``, choose schedules of another generator


def kernels(module: ir.Module) -> list[func.FuncOp]:
    """The kernel functions: private and with a body."""
    return [
        op for op in module.body.operations
        if isinstance(op, func.FuncOp) and not op.is_external and "sym_visibility" in op.attributes
    ]


def choose(kernel: func.FuncOp, target: Target, matmul: str = "auto", undecided: list[str] | None = None) -> Any:
    """What the cost model picks; ``matmul`` is the option.  ``undecided`` gets, of each module that could not be asked, what its choice rests on that
    depends on the call."""
    schedule, left = _chosen(kernel, target, matmul)
    if undecided is not None:
        undecided += left
    if schedule is None:
        raise PassError(f"no generator for {target.name} takes kernel @{kernel.name.value}")
    return schedule


@read_by_text
def _chosen(kernel: func.FuncOp, target: Target, matmul: str) -> tuple[Any | None, tuple[str, ...]]:
    """The schedule, None where no generator takes the kernel, and what could not be asked."""
    undecided: list[str] = []
    with unchanged(kernel):
        for name in choosers(target):
            if name == _ON_DEMAND and matmul != "library":
                continue
            try:
                schedule = import_module(name).choose(kernel, target)
            except Undecided as error:
                undecided.append(f"{name.rpartition('.')[2]}: {error}")
                continue
            if schedule is not None and not (matmul == "generated" and getattr(schedule, "multiplies", False)):
                return schedule, tuple(undecided)
    return None, tuple(undecided)


def generator_for(kernel: func.FuncOp, target: Target) -> str | None:
    """The generator of the schedule that the cost model picks; None where no generator takes the kernel."""
    try:
        return choose(kernel, target).generator
    except PassError:
        return None


def is_for(generator: str, kernel: func.FuncOp, target: Target) -> bool:
    """Whether the cost model picks a schedule of this generator."""
    return generator_for(kernel, target) == generator
