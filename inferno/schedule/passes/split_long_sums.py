"""Split a product of two tall matrices, such as the gradient of a layer's weight, into products of their parts and a kernel that adds these up.

A cluster shares the terms of a tile among 8 blocks at most, so few results of many terms leave most of the GPU without work.  Here the terms are cut into parts
that are one batch, in float32, and what comes behind the product goes to the kernel that adds.  On an H200 ``x.t() @ y`` in bf16 took, as one kernel, by
cuBLASLt and so (us): 128x128 of 65536 terms 16.8, 13.2 and 9.1; 256x256 of 16384 12.5, 9.8 and 9.1, of 65536 38, 25 and 22.7; 96x384 of 16384 11.8, 8.9 and
8.3; 512x128 of 65536 26.9, 27.0 and 26.0; 512x32 of 4096, the least gain, 5.2, 7.4 and 5.4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from inferno.mlir import arith, clone_onto, func, ir, tensor, users, walk
from inferno.passes.affine import projection, renumber
from inferno.passes.generics import PARALLEL, REDUCTION, build, dims, inputs, kinds, loop_sizes, maps, outputs, substitute
from inferno.passes.programs import callee, keep_precision
from inferno.powers import last_power_of_two
from inferno.schedule.matmul.contraction import Contraction
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.wgmma import has_whole_lines
from inferno.schedule.matmul.wgmma_schedule import precision
from inferno.schedule.passes.batch_products import Product, batch_of, batch_type, take_apart
from inferno.schedule.passes.calls import may_change, new_kernel, replace_call, tell_sources
from inferno.schedule.passes.chunk_kernels import cut_dimension, cut_shape, type_of
from inferno.schedule.passes.rewrite import hopper_for_products, merge_in
from inferno.target import Target

_SIDE = 128  # rows and columns of a tile
# Parts by the number of such tiles: 64 blocks have as much of memory as there is.  More tiles than so are enough without (512x512 of 65536 terms 50.1 us, in
# four parts 52.5).
_BLOCKS, _TILES, _MOST = 64, 8, 32
_TERMS, _EACH = 4096, 1024  # of a sum, and of each part
_WHOLE = 8  # numbers of 16 bits where a part's lines begin, as the copy engine reads them
_RESULTS, _FEW = 8192, 32  # fewer results, or a shorter side, are others' (``direct.py``)


@dataclass(frozen=True, eq=False)
class _Split:
    """Both kernels, and what they read of the arguments of the one that was: ``parts`` the ``factors``, whose dimensions ``cuts`` are cut into ``count`` where
    there are any, and ``sums``, beside the parts, those with these ``numbers``."""

    parts: func.FuncOp
    sums: func.FuncOp
    factors: tuple[int, ...]
    cuts: list[int] | None
    numbers: tuple[int, ...]
    count: int


def split_long_sums(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its products of 16-bit numbers; nothing for targets other than Hopper."""
    machine = hopper_for_products(module, target)
    if machine is None:
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
    return last_power_of_two(min(_MOST, _BLOCKS * target.multiprocessors // 132 // tiles, c.K // _EACH))


def _split(module: ir.Module, kernel: func.FuncOp, target: Target) -> _Split | None:
    """Both kernels of a product whose terms are to be cut, and can be."""
    c = parse_contraction(kernel)
    count = parts_of(kernel, c, target) if c is not None else 1
    product = take_apart(kernel) if count > 1 else None
    found = _loop(product.op, count) if product is not None else None
    if found is None:
        return None
    loop, count, is_cut = found
    places = [dims(m).index(loop) for m in maps(product.op)[:2]]
    parts = _parts_kernel(module, kernel, product, loop, count, places, is_cut)
    sums, numbers = _sums_kernel(module, kernel, product, count)
    return _Split(parts, sums, product.factors, places if is_cut else None, numbers, count)


def _loop(op: ir.Operation, count: int) -> tuple[int, int, bool] | None:
    """The loop along terms that becomes one of parts, how many, and whether it is cut for that: the outermost if it is about as long, or else the longest, if
    both factors have it as a dimension of their own."""
    sizes, loops, read = loop_sizes(op), [d for d, kind in enumerate(kinds(op)) if kind == REDUCTION], [dims(m) for m in maps(op)[:2]]
    if None in read or any(d not in r for d in loops for r in read):
        return None
    if count // 2 <= sizes[loops[0]] <= 2 * count and len(loops) > 1:
        return loops[0], sizes[loops[0]], False
    longest = max(loops, key=lambda d: sizes[d])
    whole = _WHOLE if any(r[-1] == longest for r in read) else 1
    possible = [n for n in range(count // 2 + 1, 2 * count + 1) if sizes[longest] % (n * whole) == 0]
    nearest = min(possible, key=lambda n: max(n / count, count / n), default=None)
    return (longest, nearest, True) if nearest is not None else None


def _parts_kernel(module: ir.Module, kernel: func.FuncOp, product: Product, loop: int, count: int, places: Sequence[int], is_cut: bool) -> func.FuncOp:
    """The products of the parts: a batch, whose loop was cut from the one along terms, or is that."""
    op, indexing, loops = product.op, maps(product.op), kinds(product.op)
    types = [type_of(v, cut_shape(list(v.type.shape), p, count)) if is_cut else v.type for v, p in zip(inputs(op), places)]
    new = new_kernel(module, kernel, f"{kernel.name.value}_parts", types, [batch_type(product, count)])
    keep_precision(new, kernel)
    if not is_cut:  # each product has the other loops
        others = [d for d in range(len(loops)) if d != loop]
        rest = [ir.AffineMap.get(m.n_dims, 0, [e for d, e in zip(dims(m), m.results) if d != loop]) for m in indexing]
        indexing, loops = [substitute(m, renumber(others, len(kinds(op))), len(others)) for m in rest], [loops[d] for d in others]
    batch_of(new, op, list(new.entry_block.arguments)[:2], places, indexing, loops)
    return new


def _sums_kernel(module: ir.Module, kernel: func.FuncOp, product: Product, count: int) -> tuple[func.FuncOp, tuple[int, ...]]:
    """What adds the parts and does all else that the kernel did, and which of its inputs that reads."""
    results, arguments, rank = list(kernel.type.results), list(product.function.entry_block.arguments), product.op.results[0].type.rank + 1
    read = [a for a in arguments[: len(arguments) - len(results)] if any(u != product.op for u in users(a))]
    new = new_kernel(module, kernel, f"{kernel.name.value}_sums", [batch_type(product, count), *(a.type for a in read)], results)
    parts, *given = new.entry_block.arguments
    known = dict(zip([*read, *arguments[-len(results):]], given))
    indexing = [ir.AffineMap.get_identity(rank), projection(range(1, rank), rank)]
    with ir.InsertionPoint(new.entry_block):
        for op in product.function.entry_block.operations:
            if op.operation != product.op:
                clone_onto(op.operation, known)
                continue
            start, add = known[outputs(product.op)[0]], lambda a: [arith.AddFOp(a[1], a[0]).result]
            known[product.op.results[0]] = build([parts], [start], indexing, [REDUCTION, *[PARALLEL] * (rank - 1)], add, product.op.location).results[0]
    return new, tuple(a.arg_number for a in read)


def _replace(call: ir.Operation, split: _Split) -> None:
    operands = list(call.operands)
    with ir.InsertionPoint(call), call.location:
        factors = [operands[n] for n in split.factors]
        if split.cuts is not None:
            factors = [cut_dimension(v, place, split.count) for v, place in zip(factors, split.cuts)]
        (total,) = split.parts.type.results
        empty = tensor.EmptyOp(list(total.shape), total.element_type).result
        made = func.CallOp(split.parts, [*factors, empty])
        tell_sources(made.operation, [call])
        replace_call(call, func.CallOp(split.sums, [made.results[0], *(operands[n] for n in split.numbers), *operands[-len(call.results):]]))
