"""A product of two tall matrices, as the gradient of a layer's weight is, becomes products of their parts and a kernel that adds these up.

A cluster shares the terms of a tile among 8 blocks at most, so few results of many terms leave most of the GPU without work.  Here the terms are cut into parts
that are one batch, in float32, and what comes behind the product goes to the kernel that adds.  On an H200 ``x.t() @ y`` in bf16 took, as one kernel, by
cuBLASLt and so (us): 128x128 of 65536 terms 16.8, 13.2 and 9.1; 256x256 of 16384 12.5, 9.8 and 9.1, of 65536 38, 25 and 22.7; 96x384 of 16384 11.8, 8.9 and
8.3; 512x128 of 65536 26.9, 27.0 and 26.0; 512x32 of 4096, the least gain, 5.2, 7.4 and 5.4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from inferno.mlir import arith, clone_onto, func, ir, linalg, tensor, walk
from inferno.passes.generics import PARALLEL, REDUCTION, body, build, clone_body, inputs, is_generic, kinds, maps, outputs
from inferno.passes.programs import PRECISION, callee, wants_library
from inferno.passes.shapes import reassociation_attribute
from inferno.passes.split_contractions import split_contractions
from inferno.schedule.contraction import Contraction, parse_contraction
from inferno.schedule.merge_calls import may_change, merge_in, new_kernel, replace_call
from inferno.schedule.wgmma import has_whole_lines
from inferno.schedule.wgmma_schedule import precision
from inferno.target import Target, find_target

_SIDE = 128  # rows and columns of a tile
# Parts by the number of such tiles: 64 blocks have as much of memory as there is.  More tiles than so are enough without (512x512 of 65536 terms 50.1 us, in
# four parts 52.5).
_BLOCKS, _TILES, _MOST = 64, 8, 32
_TERMS, _EACH = 4096, 1024  # of a sum, and of each part
_WHOLE = 8  # numbers of 16 bits where a part's lines begin, as the copy engine reads them
_RESULTS, _FEW = 8192, 32  # fewer results, or a shorter side, are others' (``direct.py``)


@dataclass(frozen=True, eq=False)
class _Split:
    """Both kernels, and what they read of the arguments of the one that was: ``parts`` the ``factors``, each with the dimension that is cut into ``count``, if
    one is, and ``sums``, beside the parts, those with these ``numbers``."""

    parts: func.FuncOp
    sums: func.FuncOp
    factors: tuple[tuple[int, int | None], ...]
    numbers: tuple[int, ...]
    count: int


def split_long_sums(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its products of 16-bit numbers; nothing for targets other than Hopper."""
    machine = find_target(target)
    if machine.kind != "nvptx" or not machine.hopper or wants_library(module):
        return

    def merge(main: func.FuncOp, kernels: dict[str, func.FuncOp]) -> bool:
        found: dict[str, _Split | None] = {}
        for call in walk(main, "func.call"):
            name = callee(call)
            if name not in found:
                found[name] = _split(module, kernels[name], machine) if may_change(kernels.get(name)) else None
            if (split := found[name]) is not None:
                _replace(call, split)
        return any(found.values())

    merge_in(module, merge)


def parts_of(kernel: func.FuncOp, c: Contraction, target: Target) -> int:
    """Into how many parts the terms of a product are cut; 1 if it stays as it is."""
    if c.varies or c.B != 1 or precision(kernel, c) not in ("bf16", "f16") or c.lhs.prologue is not None or c.rhs.prologue is not None:
        return 1
    tiles = ceil(c.M / _SIDE) * ceil(c.N / _SIDE)
    if c.K < _TERMS or c.M * c.N < _RESULTS or min(c.M, c.N) < _FEW or tiles > _TILES or not has_whole_lines(c):
        return 1
    most = min(_MOST, _BLOCKS * target.multiprocessors // 132 // tiles, c.K // _EACH)
    return 1 << (most.bit_length() - 1)


def _split(module: ir.Module, kernel: func.FuncOp, target: Target) -> _Split | None:
    """Both kernels of a product whose terms are to be cut, and can be."""
    c = parse_contraction(kernel)
    count = parts_of(kernel, c, target) if c is not None else 1
    if count < 2:
        return None
    holder = ir.Module.create()
    holder.body.append(kernel.operation.clone(ip=False))
    split_contractions(holder)
    copy = holder.body.operations[0]
    product = next(o.operation for o in copy.entry_block.operations if is_generic(o.operation) and REDUCTION in kinds(o.operation))
    if any(not isinstance(v, ir.BlockArgument) for v in inputs(product)):
        return None
    found = _loop(product, count)
    if found is None:
        return None
    loop, count, is_cut = found
    places = [_place(m, loop) for m in maps(product)[:2]]
    parts = _parts_kernel(module, kernel, product, loop, count, places if is_cut else [None, None])
    sums, numbers = _sums_kernel(module, kernel, copy, product, count)
    factors = tuple((v.arg_number, p if is_cut else None) for v, p in zip(inputs(product), places))
    return _Split(parts, sums, factors, numbers, count)


def _loop(product: ir.Operation, count: int) -> tuple[int, int, bool] | None:
    """The loop along terms that becomes one of parts, how many, and whether it is cut for that: the outermost if it is about as long, or else the longest, if
    both factors have it as a dimension of their own."""
    sizes = {}
    for v, m in zip(inputs(product), maps(product)):
        for e, size in zip(m.results, v.type.shape):
            if isinstance(e, ir.AffineDimExpr):
                sizes[ir.AffineDimExpr(e).position] = size
    loops = [d for d, kind in enumerate(kinds(product)) if kind == REDUCTION]
    if any(d not in sizes or any(_place(m, d) is None for m in maps(product)[:2]) for d in loops):
        return None
    if count // 2 <= sizes[loops[0]] <= 2 * count and len(loops) > 1:
        return loops[0], sizes[loops[0]], False
    longest = max(loops, key=lambda d: sizes[d])
    along = any(_place(m, longest) == len(m.results) - 1 for m in maps(product)[:2])
    possible = [n for n in range(count // 2 + 1, 2 * count + 1) if sizes[longest] % (n * (_WHOLE if along else 1)) == 0]
    nearest = min(possible, key=lambda n: max(n / count, count / n), default=None)
    return (longest, nearest, True) if nearest is not None else None


def _place(map_: ir.AffineMap, loop: int) -> int | None:
    """The dimension that a loop goes along, and nothing else."""
    found = [i for i, e in enumerate(map_.results) if isinstance(e, ir.AffineDimExpr) and ir.AffineDimExpr(e).position == loop]
    return found[0] if len(found) == 1 else None


def _cut(shape: Sequence[int], place: int, count: int) -> list[int]:
    return [*shape[:place], count, shape[place] // count, *shape[place + 1 :]]


def _parts_kernel(module: ir.Module, kernel: func.FuncOp, product: ir.Operation, loop: int, count: int, places: Sequence[int | None]) -> func.FuncOp:
    """The products of the parts: a batch, its loop in front of the others, or in the place of the one that was not cut."""
    result, before = product.results[0].type, maps(product)
    types = [v.type if p is None else ir.RankedTensorType.get(_cut(v.type.shape, p, count), v.type.element_type) for v, p in zip(inputs(product), places)]
    total = ir.RankedTensorType.get([count, *result.shape], result.element_type)
    new = new_kernel(module, kernel, f"{kernel.name.value}_parts", types, [total])
    if PRECISION in kernel.attributes:
        new.attributes[PRECISION] = kernel.attributes[PRECISION]
    is_cut = places[0] is not None
    rank = len(kinds(product)) + is_cut
    first = ir.AffineDimExpr.get(0)
    moved = [d + 1 if is_cut or d < loop else 0 if d == loop else d for d in range(len(kinds(product)))]
    exprs = [ir.AffineDimExpr.get(d) for d in moved]

    def mapped(map_: ir.AffineMap, place: int | None) -> ir.AffineMap:
        results = [exprs[ir.AffineDimExpr(e).position] for e in map_.results]
        return ir.AffineMap.get(rank, 0, results if place is None else [*results[:place], first, *results[place:]])

    loops = [PARALLEL] * rank
    for d, kind in enumerate(kinds(product)):
        if is_cut or d != loop:
            loops[moved[d]] = kind
    indexing = [*(mapped(m, p) for m, p in zip(before, places)), mapped(before[2], 0)]
    with ir.InsertionPoint(new.entry_block), product.location:
        lhs, rhs, out = new.entry_block.arguments
        zero = arith.ConstantOp(result.element_type, ir.FloatAttr.get(result.element_type, 0.0)).result
        start = linalg.fill(zero, outs=[out])
        made = build([lhs, rhs], [start], indexing, loops, lambda arguments: clone_body(body(product), arguments), product.location)
        func.ReturnOp(made.results)
    return new


def _sums_kernel(module: ir.Module, kernel: func.FuncOp, copy: func.FuncOp, product: ir.Operation, count: int) -> tuple[func.FuncOp, tuple[int, ...]]:
    """What adds the parts and does all else that the kernel did, and which of its inputs that reads."""
    results, arguments = list(kernel.type.results), list(copy.entry_block.arguments)
    read = [a for a in arguments[: len(arguments) - len(results)] if any(u.owner.operation != product for u in a.uses)]
    type_ = product.results[0].type
    total = ir.RankedTensorType.get([count, *type_.shape], type_.element_type)
    new = new_kernel(module, kernel, f"{kernel.name.value}_sums", [total, *(a.type for a in read)], results)
    given = list(new.entry_block.arguments)
    known = dict(zip([*read, *arguments[-len(results):]], given[1:]))
    rank = type_.rank + 1
    points = ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(d) for d in range(1, rank)])
    with ir.InsertionPoint(new.entry_block):
        for op in copy.entry_block.operations:
            if op.operation != product:
                clone_onto(op.operation, known)
                continue
            start = known[outputs(product)[0]]
            add = lambda a: [arith.AddFOp(a[1], a[0]).result]  # noqa: E731
            made = build([given[0]], [start], [ir.AffineMap.get_identity(rank), points], [REDUCTION, *[PARALLEL] * type_.rank], add, product.location)
            known[product.results[0]] = made.results[0]
    return new, tuple(a.arg_number for a in read)


def _replace(call: ir.Operation, split: _Split) -> None:
    operands = list(call.operands)
    with ir.InsertionPoint(call), call.location:
        factors = [operands[n] if p is None else _expanded(operands[n], p, split.count) for n, p in split.factors]
        (total,) = split.parts.type.results
        empty = tensor.EmptyOp(list(total.shape), total.element_type).result
        made = func.CallOp(split.parts, [*factors, empty])
        for name in call.attributes:
            if name not in ("callee", "operandSegmentSizes"):
                made.operation.attributes[name] = call.attributes[name]
        replace_call(call, func.CallOp(split.sums, [made.results[0], *(operands[n] for n in split.numbers), *operands[-len(call.results):]]))


def _expanded(value: ir.Value, place: int, count: int) -> ir.Value:
    shape = list(value.type.shape)
    new = _cut(shape, place, count)
    groups = [[d] if d < place else [d, d + 1] if d == place else [d + 1] for d in range(len(shape))]
    return tensor.ExpandShapeOp(ir.RankedTensorType.get(new, value.type.element_type), value, reassociation_attribute(groups), [], new).result
