"""On a GPU, let a contraction or a scan read a slice in place, where its generator does that as well as it reads a whole tensor.

``outline-kernels`` does not know yet what will compute these, and leaves a copy of each part in front of it: of the first token's features in a
model's last layer, of some channels, of a view that was given to the program.
"""

from math import prod

from inferno.element_sizes import element_bytes
from inferno.errors import PassError
from inferno.mlir import func, ir, owner, tensor, users
from inferno.passes.programs import callee, keep_precision, operations_in, readers
from inferno.schedule.assign import choose
from inferno.schedule.matmul.contraction import oriented
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma_schedule import Wgmma
from inferno.schedule.passes.calls import calls_in, may_change
from inferno.schedule.passes.edges import edges_of
from inferno.schedule.passes.merge_calls import Merges, names_of
from inferno.schedule.passes.rewrite import merge_in
from inferno.schedule.tiles.tiling import tile_contraction
from inferno.target import Target, find_target

# Bytes, of what a part begins at and of its strides: generators read vectors as of a tensor of its own, and memory moves sectors of as many.  (On an H200 a
# product of 1200 lines of 2800 bytes took 7.1 us, and 6.3 with the copy.)
_ALIGNED = 32
# Readers, each of which reads a part itself that has so few elements, or lies as a tensor of its own, as a row of a matrix: one launch less (4x1856 by a
# column, less its mean, took an H100 6.1 us, and takes 4.6).
_MOST, _FEW = 4, 1 << 13
_ROWS = "rows"  # of what is not aligned they read narrower vectors, or elements: less than a copy takes, which reads them so, too
# Those which find what lies anywhere.
_GENERATORS = (
    "wgmma", "mma", "presplit", "bf16x6", "direct_bf16x6", "direct", "simt", "vectors", "short_vectors", "small_products", "reductions", "columns",
    "elementwise",
)


def fold_slices(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for the CPU."""
    machine = find_target(target)
    if machine.kind != "nvptx":
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        merges = Merges(module, kernels)
        left, changed = [o for o in calls_in(main) if _is_part(kernels.get(callee(o)))], False
        while left:
            changed |= _fold(merges, left.pop(0), machine, left)
        return changed

    merge_in(module, merge)


def _is_part(kernel: func.FuncOp | None) -> bool:
    """Whether a kernel copies a part of a tensor, and nothing else."""
    if not may_change(kernel):
        return False
    operations = [o for o in operations_in(kernel) if o.name not in ("arith.constant", "func.return")]
    return [o.name for o in operations] == ["tensor.extract_slice", "linalg.copy"] and len(operations[0].operands) == 1


def _is_aligned(kernel: func.FuncOp) -> bool:
    """Whether the part lies in memory as vectors are read."""
    part = next(o for o in operations_in(kernel) if o.name == "tensor.extract_slice")
    shape = part.operands[0].type.shape
    strides = [1] * len(shape)
    for d in reversed(range(len(shape) - 1)):
        strides[d] = strides[d + 1] * shape[d + 1]
    offsets, sizes, steps = (list(ir.DenseI64ArrayAttr(part.attributes[n])) for n in ("static_offsets", "static_sizes", "static_strides"))
    begin = sum(o * s for o, s in zip(offsets, strides))
    walked = [s * step for s, step, size in zip(strides, steps, sizes) if size != 1]
    elements = max(1, _ALIGNED // element_bytes(part.results[0].type.element_type))
    if sizes[-1] == 1:  # of which no vectors are read
        return True
    return walked[-1] == 1 and all(n % elements == 0 for n in (begin, *walked[:-1]))


def _is_whole(kernel: func.FuncOp) -> bool:
    """Whether the part's elements lie one behind the other in memory, from where vectors are read."""
    part = next(o for o in operations_in(kernel) if o.name == "tensor.extract_slice")
    sizes, steps = (list(ir.DenseI64ArrayAttr(part.attributes[n])) for n in ("static_sizes", "static_strides"))
    inner = next((d for d, n in enumerate(sizes) if n != 1), len(sizes) - 1) + 1
    return _is_aligned(kernel) and steps[inner - 1:] == [1] * (len(sizes) - inner + 1) and sizes[inner:] == list(part.operands[0].type.shape)[inner:]


def _fold(merges: Merges, call: ir.Operation, target: Target, left: list[ir.Operation]) -> bool:
    """Let the readers of a part read it where it lies; whether one does.  Of the parts that are ``left``, those that are in another kernel by then are not."""
    mine, kernels = list(dict.fromkeys(readers(call.results[0]))), merges.kernels
    if not 1 <= len(mine) <= _MOST or any(r.name != "func.call" or not may_change(kernels.get(callee(r))) for r in mine):
        return False
    if len(mine) == 1:
        return _fold_into(merges, call, mine[0], target, left)
    if set(users(call.results[0])) != set(mine) or not (prod(call.results[0].type.shape) <= _FEW or _is_whole(kernels[callee(call)])):
        return False
    found = False
    for reader in mine:  # each has a copy of its own, of which those are left that are not read in place, as one
        with ir.InsertionPoint(call), call.location:
            own = call.clone()
        reader.replace_uses_of_with(call.results[0], own.results[0])
        if _fold_into(merges, own, reader, target, left):
            found = True
        else:
            reader.replace_uses_of_with(own.results[0], call.results[0])
            own.erase()
    if not list(users(call.results[0])):
        call.erase()
    return found


def _fold_into(merges: Merges, call: ir.Operation, reader: ir.Operation, target: Target, left: list[ir.Operation]) -> bool:
    """Let the only reader of a part read it where it lies; whether it does."""
    before, aligned = merges.kernels[callee(reader)], _is_aligned(merges.kernels[callee(call)])

    def takes(merged: func.FuncOp) -> bool:
        keep_precision(merged, before)
        _read_in_place(merged)
        return _is_as_good(before, merged, target, aligned)

    place = next((n for n, part in enumerate(left) if part == reader), None)
    if merges.merge(edges_of([call, reader], views=True), takes, names_of(reader)) is None:
        return False
    if place is not None:  # a part of a part
        del left[place]
    return True


def _read_in_place(kernel: func.FuncOp) -> None:
    """Let what reads the part's copy read the part."""
    part = next(o for o in operations_in(kernel) if o.name == "tensor.extract_slice" and [u.name for u in users(o.results[0])] == ["linalg.copy"])
    copy = next(users(part.results[0]))
    destination = owner(copy.operands[1])
    copy.results[0].replace_all_uses_with(part.results[0])
    copy.erase()
    destination.erase()
    for view in [u for u in users(part.results[0]) if u.name == "tensor.collapse_shape" and _drops_ones(u)]:
        with ir.InsertionPoint(view), view.location:
            numbers = (list(ir.DenseI64ArrayAttr(part.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides"))
            less = tensor.ExtractSliceOp(view.results[0].type, part.operands[0], [], [], [], *numbers)
        view.results[0].replace_all_uses_with(less.result)
        view.erase()
    if not list(users(part.results[0])):
        part.erase()


def _drops_ones(view: ir.Operation) -> bool:
    """Whether a view is without some dimensions of one element, as a part may be."""
    before, after = (list(v.type.shape) for v in (view.operands[0], view.results[0]))
    return [n for n in before if n != 1] == [n for n in after if n != 1]


def _is_as_good(before: func.FuncOp, kernel: func.FuncOp, target: Target, aligned: bool) -> bool:
    """Whether ``kernel`` has the generator that ``before`` has, which copies nothing that it did not, or the rows' for a scan
    alone, whose own reads whole tensors."""
    try:
        own, schedule = choose(before, target), choose(kernel, target)
    except PassError:
        return False
    if schedule.generator == _ROWS and own.generator in (_ROWS, "scans"):
        return True
    if schedule.generator != own.generator or own.generator not in _GENERATORS or not aligned:
        return False
    return own.generator != "wgmma" or _copied(kernel, schedule) <= _copied(before, own)


def _copied(kernel: func.FuncOp, schedule: Wgmma) -> int:
    """How many factors the launcher copies for the copy engine."""
    c = oriented(parse_contraction(kernel), schedule.swapped)
    width = element_bytes(c.lhs.element)
    tiling = tile_contraction(c, width, only_along_k=width == 4, rewrite=schedule.rewrite, offset=True, registers=schedule.registers)
    return tiling.lhs.copied + tiling.rhs.copied
