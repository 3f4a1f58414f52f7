"""On a GPU, let a sort generate the indices that it carries along, and write only those sorted elements that are read.

The import makes a tensor of places (0, 1, ... along the row) for the sort to move, and takes the first of all sorted elements for a ``topk``.
Maps in front of a sort by merging, and behind it, become one kernel with it.
"""

from inferno.element_sizes import element_bytes
from inferno.mlir import func, ir, owner, walk
from inferno.passes.programs import callee, readers, root_of
from inferno.schedule.passes.adjacent_maps import join_maps
from inferno.schedule.passes.calls import free_name, inputs_of
from inferno.schedule.passes.edges import edges_across
from inferno.schedule.passes.merge_calls import defer, merged_kernel, replace_calls
from inferno.schedule.passes.rewrite import merge_in
from inferno.schedule.sorts import select, short_sorts, sorts
from inferno.schedule.sorts.kernel import parse_sort_kernel
from inferno.target import Target, find_target

# Times that what is read may be as wide as what is sorted.  On an H200 sorts along the middle of 27x77x128 in bf16 took some 3 us, of what is put together of
# two pieces 8.5 and by two kernels 4.2, of whole numbers of 64 bits that are maxima of bf16 5.7 and by two kernels 3.
_WIDER = 2


def fuse_sorts(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def is_sort(kernel: func.FuncOp | None) -> bool:
        return kernel is not None and len(walk(kernel, "tm_tensor.sort")) == 1 and parse_sort_kernel(kernel) is None

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        changed = False
        for call in [c for c in walk(main, "func.call") if is_sort(kernels.get(callee(c)))]:  # what joins one is erased, and is none
            changed |= _fuse(module, main, kernels, call)
        return changed

    def join(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        sorts_ = [c for c in walk(main, "func.call") if _is_sorted(kernels.get(callee(c)), machine)]
        return any([join_maps(module, main, kernels, call, lambda kernel: _is_sorted(kernel, machine)) for call in sorts_])

    merge_in(module, merge)
    merge_in(module, join)


def _is_sorted(kernel: func.FuncOp | None, target: Target) -> bool:
    """Whether rows are sorted by merging, whose threads have elements one by one, as maps may make them and take them: what chooses where to read or reads far
    wider numbers is faster by whole vectors."""
    c = parse_sort_kernel(kernel) if kernel is not None and walk(kernel, "tm_tensor.sort") else None
    if c is None or walk(kernel, "tensor.extract", "scf.if"):
        return False
    read = list(kernel.entry_block.arguments)[:-len(kernel.type.results)]
    if max(map(_width, read), default=0) > _WIDER * _width(walk(kernel, "tm_tensor.sort")[0].operands[0]):
        return False
    return select.pick(c.example) is None and short_sorts.pick(c.example) is None and sorts.choose(kernel, target) is not None


def _width(value: ir.Value) -> int:
    return element_bytes(value.type.element_type) if isinstance(value.type, ir.RankedTensorType) else 0


def _fuse(module: ir.Module, main: func.FuncOp, kernels: dict[str, func.FuncOp], call: ir.Operation) -> bool:
    """Make a sort, its places and the parts of its results that are read one kernel; whether they were."""
    makers = [owner(root_of(v)) for v in inputs_of(call)]
    places = [m for m in makers if m is not None and m.name == "func.call" and not _tensors(m) and m.block == call.block]
    parts = list(dict.fromkeys(u for r in call.results for u in readers(r) if u.name == "func.call" and _is_part(kernels.get(callee(u)))))
    for wanted in (parts, []) if parts else ([],):
        own = [_own(m, call) for m in places]
        ordered = [*own, call, *[o.operation for o in main.regions[0].blocks[0].operations if o.operation in wanted]]
        edges = edges_across(ordered, views=True)
        if edges is None:
            continue
        merged = merged_kernel(kernels, edges, free_name(module, callee(call)))
        if parse_sort_kernel(merged) is not None:
            defer(edges)
            replace_calls(edges, merged)
            return True
        merged.operation.erase()
    return False


def _tensors(call: ir.Operation) -> list[ir.Value]:
    """What a call reads beside sizes."""
    return [v for v in inputs_of(call) if not isinstance(v.type, ir.IndexType)]


def _own(maker: ir.Operation, call: ir.Operation) -> ir.Operation:
    """A call of a kernel of which nobody but ``call`` reads the results."""
    if all(u == call for r in maker.results for u in readers(r)):
        return maker
    with ir.InsertionPoint(call):
        own = maker.clone()
    for old, new in zip(maker.results, own.results):
        for place, value in enumerate(call.operands):
            if value == old:
                call.operands[place] = new
    return own


def _is_part(kernel: func.FuncOp | None) -> bool:
    """Whether a kernel copies a part of a tensor."""
    names = [o.operation.name for o in kernel.entry_block.operations] if kernel is not None else []
    return names == ["tensor.extract_slice", "linalg.copy", "func.return"]
