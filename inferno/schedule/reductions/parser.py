"""Reads a kernel function as a reduction: its operations as one, whose terms may be regrouped, and the order in which memory is walked best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import prod

from inferno.mlir import arith, func, ir, is_read, isolated_copy, users, walk
from inferno.passes.generics import REDUCTION, dims, input_count, is_reduction, kinds, maps, outputs
from inferno.passes.programs import VIEWS, operations_in, returned
from inferno.passes.shapes import symbol_arguments
from inferno.schedule.analysis.accesses import (
    Access, access, argument_index, destination_index, filled, knows_arguments, loop_sizes, merge, placed, sink_constants,
)
from inferno.schedule.analysis.affine_extracts import read_by_maps
from inferno.schedule.analysis.chosen_terms import chosen_together, followed_tables, table_accesses
from inferno.schedule.analysis.combiners import Combiner, read_combiner, to_term
from inferno.schedule.analysis.unchanged import read_by_text
from inferno.schedule.analysis.varying_rows import read_varying
from inferno.schedule.maps.supported import supported_body, supported_element
from inferno.schedule.reductions.exponential_sums import ExponentialSum, read_exponential_sum, to_first_term
from inferno.schedule.reductions.extrema import Extremum, read_extremum, to_candidate, unround
from inferno.schedule.reductions.kernel import ReductionKernel
from inferno.schedule.reductions.merge_generics import merge_generics
from inferno.schedule.reductions.split_products import split_products
from inferno.schedule.reductions.stored_maps import take_in
from inferno.schedule.reductions.uncoalesced_terms import elements, uncoalesced_time


_OTHERS = ("linalg.generic", "linalg.fill", "arith.constant", "tensor.empty", "tensor.extract_slice", "func.return", *VIEWS)


def parse_reduction(kernel: func.FuncOp) -> ReductionKernel | None:
    """What ``kernel`` computes, or None if it is anything else.  Of sizes that vary, one symbol may be in the number of sums: neighbours in memory are
    terms of one sum then, and their number is known."""
    if not symbol_arguments(kernel.operation):
        return _parse_known(kernel)
    if walk(kernel.operation, "tensor.extract", "scf.if"):
        return None
    c = read_varying(kernel, _parse_known, bodies=True)
    return c if c is not None and c.along and isinstance(c.length, int) and not c.taken else None


def parse_varying(kernel: func.FuncOp) -> ReductionKernel | None:
    """The same of up to four symbols anywhere in the sizes, where terms are put together one by one: exponentials ask for known lengths."""
    if not symbol_arguments(kernel.operation) or walk(kernel.operation, "scf.if"):
        return None
    module = _split(kernel)  # which term is the last one a size says
    c = read_varying(module.body.operations[0], _parse_known, most=4, bodies=True)
    return c if c is not None and c.exponentials is None and c.terms else None


def _parse_known(kernel: func.FuncOp) -> ReductionKernel | None:
    types = [a.type for a in kernel.entry_block.arguments if not isinstance(a.type, ir.IndexType)]
    if not knows_arguments(kernel) or any(not t.has_static_shape for t in types):
        return None
    operations = operations_in(kernel)
    if any(o.name not in _OTHERS for o in operations):
        return None
    if not any(is_reduction(o) for o in operations):
        return None
    return _read(kernel)


@read_by_text
def _read(kernel: func.FuncOp) -> ReductionKernel | None:
    module = _split(kernel)
    with kernel.context, kernel.location:
        return _parse(module)


def _split(kernel: func.FuncOp) -> ir.Module:
    """A module with a copy of a kernel, whose products are apart from their sums, and these from what is made of them."""
    with kernel.context, kernel.location:
        module = isolated_copy(kernel)
        split_products(module, vectors=True)
        return module


@dataclass(frozen=True)
class _Reduced:
    """A kernel's reductions as one operation, ``generic``: ``count`` results are sums, others are terms that are stored.

    ``front`` are maps that were taken into it, ``after`` the map of its sums; ``tables`` are what bodies extract from; ``chooses``: they choose
    between terms.
    """

    generic: ir.Operation
    count: int
    front: tuple[ir.Operation, ...]
    after: ir.Operation | None
    tables: tuple[Access, ...]
    chooses: bool


def _reduced(kernel: func.FuncOp) -> _Reduced | None:
    """The reductions of a kernel as one; None if they are none, or cannot be one."""
    operations = operations_in(kernel)
    generics = [o for o in operations if o.name == "linalg.generic" and filled(o.results[0]) is None]
    front = list(takewhile(lambda g: not is_reduction(g), generics))
    generics = generics[len(front):]
    after = generics.pop() if len(generics) == 2 and _is_after(generics[1], generics[0]) else None
    if not generics:  # of constants alone
        return None
    if any(not is_reduction(g) or not supported_body(g) for g in generics):
        return None
    generics = [read_by_maps(generics[0], every=True)] if len(generics) == 1 else generics
    if not all(sink_constants(g, tables=True) for g in generics):
        return None
    extracted = dict.fromkeys(op.operands[0] for g in generics for op in walk(g, "tensor.extract"))
    numbers = [argument_index(kernel, v) for v in extracted]
    chooses = any(walk(g, "scf.if") for g in generics)
    if extracted and (len(generics) > 1 or any(n is None or n >= len(kernel.type.inputs) - len(kernel.type.results) for n in numbers)):
        return None
    tables = tuple(access(v, ir.AffineMap.get_identity(v.type.rank), n) for v, n in zip(extracted, numbers))
    generic = generics[0] if len(generics) == 1 else merge_generics(generics)
    if generic is None or (front and tables):
        return None
    count = len(generic.results)
    for each in reversed(front):
        generic = take_in(each, generic, list(operations[-1].operands))
        if generic is None:
            return None
    return _Reduced(generic, count, tuple(front), after, tables, chooses)


def _parse(module: ir.Module) -> ReductionKernel | None:
    kernel = module.body.operations[0]
    found = _reduced(kernel)
    if found is None:
        return None
    generic, count, after = found.generic, found.count, found.after
    sizes, kind, all_maps = loop_sizes(generic), kinds(generic), maps(generic)
    if sizes is None or 0 in sizes:
        return None
    inputs = input_count(generic)
    loops = [d for d in range(len(sizes)) if kind[d] == REDUCTION and sizes[d] != 1]
    own, beside = all_maps[inputs:inputs + count], all_maps[inputs + count:]
    made = list(zip(generic.results, own)) if after is None else [(r, own[0]) for r in after.results]
    if any(kind[d] == REDUCTION and sizes[d] != 1 for m in own for d in dims(m) or ()):
        return None
    results = _results(kernel, [*made, *zip(list(generic.results)[count:], beside)], sizes, kind)
    starts = tuple(filled(v) for v in outputs(generic)[:count])
    if not loops or results is None or any(x is None for x in starts) or (after is not None and len(set(map(str, own))) > 1):
        return None
    results, stored = results[:len(made)], results[len(made):]
    sources = _sources(kernel, generic, all_maps, inputs)
    if sources is None:
        return None
    reads = tuple(table_accesses(kernel, generic)) if found.chooses or not any(sources) else ()
    regrouped = _take_combiners(found, inputs, loops)
    if regrouped is None:
        return None
    combiners, extremum, exponentials = regrouped
    if extremum is None and not stored:
        sources = _forwards(generic, sources, sizes, loops)
    beside_sums = _beside(kernel, after, generic, own[0]) if after is not None else ()
    if beside_sums is None or (any(beside_sums) and not walks_all(sizes, sources)):
        return None
    places = [a for a in (*sources, *results, *stored, *beside_sums, *reads) if a is not None]
    if not all(supported_element(a.element) for a in places):
        return None
    if any(x < 0 for a in (*results, *stored) if a is not None for x in a.strides) or (
        wide := _widest(sizes, (*sources, *reads), stored, loops) or _widest(sizes, followed_tables(kernel, generic), (), loops)
    ) is None:
        return None
    # What no tensor is walked along but a table, whose rows a body extracts, is innermost: its columns, if neighbours are neighbours of the results, too.
    tabled = found.tables and not found.chooses
    columns = {d for d, x in enumerate(wide.strides) if x == 0 and (d in loops or _is_innermost(d, wide, results))} if tabled else ()
    order = sorted((d for d in range(len(sizes)) if sizes[d] != 1), key=lambda d: (d in columns, wide.strides[d] != 0, -abs(wide.strides[d])))
    points, terms = [d for d in order if d not in loops], [d for d in order if d in loops]
    along = order[-1] in loops
    runs = [tuple(map(tuple, merge(each, sizes, places))) for each in (points, terms)]
    together = chosen_together(generic, order[-1], sizes[order[-1]]) if found.chooses else 0
    return ReductionKernel(
        generic, tuple(sizes), *runs, along, sources, results, combiners, starts, extremum, module, after, exponentials, len(found.front), stored,
        found.tables, beside_sums, reads, together,
    )


def _is_innermost(d: int, wide: Access, results: Sequence[Access | None]) -> bool:
    """Whether results along a loop lie closer to each other than along all that ``wide`` is walked by."""
    walked = [e for e, x in enumerate(wide.strides) if x]
    return all(r.strides[d] < min((r.strides[e] for e in walked if r.strides[e]), default=r.strides[d] + 1) for r in results if r is not None)


def _take_combiners(found: _Reduced, inputs: int, loops: list[int]) -> tuple[tuple[Combiner, ...], Extremum | None, ExponentialSum | None] | None:
    """How running values take up terms, and which pair of them is an extremum with its place or a softmax's; bodies yield terms alone from here on.  None
    where that is not understood, or a body reads what was there before."""
    block = found.generic.regions[0].blocks[0]
    alone = found.after is None and not found.front
    extremum = read_extremum(block, inputs, loops[0]) if len(loops) == 1 and alone else None
    exponentials = read_exponential_sum(block, inputs) if extremum is None and not found.front and not found.chooses else None
    pair = extremum or exponentials
    combiners = pair.combiners if pair is not None else tuple(read_combiner(block, block.arguments[inputs + i], i) for i in range(found.count))
    if any(k is None for k in combiners) or (found.tables and exponentials is not None and not found.chooses):
        return None
    if extremum is not None:
        to_candidate(block, inputs)
        unround(block, extremum)
    elif exponentials is not None:
        to_first_term(block)
    else:
        for i in range(found.count):
            to_term(block, block.arguments[inputs + i], i)
    if any(is_read(a) for a in list(block.arguments)[inputs:]):
        return None
    return tuple(combiners), extremum, exponentials


def walks_all(sizes: tuple[int, ...], sources: Sequence[Access | None]) -> bool:
    """Whether some tensor has a term for each step of all loops, as no factor of a product of matrices has."""
    return any(all(a.strides[d] != 0 or n == 1 for d, n in enumerate(sizes)) for a in sources if a is not None)


def _widest(sizes: tuple[int, ...], sources: Sequence[Access | None], stored: Sequence[Access], loops: list[int]) -> Access | None:
    """The tensor in whose order threads go: one of those with most elements, by whose order fewest of the others are uncoalesced, and rather the terms of a sum
    are neighbours: pieces of several sums are read whole then."""
    known = [a for a in (*stored, *sources) if a is not None]
    most = max((elements(sizes, a) for a in known), default=0)

    def costs(access: Access) -> tuple[float, bool]:
        steps = [abs(x) if x and sizes[d] != 1 else prod(sizes) for d, x in enumerate(access.strides)]
        inner = steps.index(min(steps)) if steps else 0
        uncoalesced = uncoalesced_time(sizes, inner, sources, stored) if steps else 0.0
        return uncoalesced, bool(uncoalesced) and inner not in loops

    return min((a for a in known if elements(sizes, a) == most), key=costs, default=None)


def _forwards(generic: ir.Operation, sources: tuple[Access | None, ...], sizes: tuple[int, ...], loops: list[int]) -> tuple[Access | None, ...]:
    """The sources with terms that all are walked backwards walked forwards: their order does not count, unless their numbers do."""
    found = list(sources)
    if walk(generic, "linalg.index"):
        return sources
    for d in loops:
        steps = [a.strides[d] for a in found if a is not None]
        if steps and min(steps) < 0 and max(steps) <= 0:
            found = [a and replace(
                a, strides=tuple(abs(x) if i == d else x for i, x in enumerate(a.strides)), offset=a.offset + a.strides[d] * (sizes[d] - 1),
            ) for a in found]
    return tuple(found)


def _is_after(after: ir.Operation, generic: ir.Operation) -> bool:
    """Whether an operation is a map of the sums of another one, which have no other reader, of each point by itself."""
    if any(u != after for r in generic.results for u in users(r)) or is_reduction(after):
        return False
    count = len(after.operands) - len(after.results)
    block, sums = after.regions[0].blocks[0], [v in list(generic.results) for v in list(after.operands)[:count]] + [True] * len(after.results)
    whole = all(m == ir.AffineMap.get_identity(m.n_dims) if own else m.is_projected_permutation for m, own in zip(maps(after), sums))
    plain = whole and not walk(after, "tensor.extract", "scf.if", "linalg.index")
    unread = not any(is_read(a) for a in list(block.arguments)[count:])
    return plain and unread and any(sums[:count]) and supported_body(after) and sink_constants(after, tables=True)


def _beside(kernel: func.FuncOp, after: ir.Operation, generic: ir.Operation, own: ir.AffineMap) -> tuple[Access | None, ...] | None:
    """Where the operands of a map of sums are read, by the loops of these, whose results lie by the map ``own``; None for a sum."""
    loops, given, found = dims(own), len(kernel.type.inputs) - len(kernel.type.results), []
    for value, map_ in zip(list(after.operands)[:len(after.operands) - len(after.results)], maps(after)):
        if value in list(generic.results):
            found.append(None)
            continue
        at = placed(kernel, value, map_)
        if at is None or at.argument >= given or loops is None or len(loops) != len(own.results) or any(x < 0 for x in at.strides):
            return None
        strides = dict(zip(loops, at.strides))
        found.append(replace(at, strides=tuple(strides.get(d, 0) for d in range(own.n_dims))))
    return tuple(found)


def _results(
    kernel: func.FuncOp, made: Sequence[tuple[ir.Value, ir.AffineMap]], sizes: tuple, kinds: list[str],
) -> tuple[Access | None, ...] | None:
    """Where values go that loops make by maps: every element of a destination once."""
    values, arguments = returned(kernel), len(kernel.type.inputs)
    found: list[Access | None] = []
    if any(v not in [value for value, _ in made] for v in values):
        return None
    for value, map_ in made:
        if value not in values:
            found.append(None)
            continue
        argument = destination_index(kernel, value)
        if argument != arguments - len(values) + values.index(value) or values.count(value) != 1:
            return None
        place = access(value, map_, argument)
        loops = [ir.AffineDimExpr(e).position for e in map_.results if isinstance(e, ir.AffineDimExpr)]
        whole = len(loops) == len(set(loops)) and all(d in loops or s == 1 or kinds[d] == REDUCTION for d, s in enumerate(sizes))
        if place is None or not whole or prod(place.shape) != prod(sizes[d] for d in loops):
            return None
        found.append(place)
    return tuple(found)


def _sources(kernel: func.FuncOp, generic: ir.Operation, all_maps: list, inputs: int) -> tuple[Access | None, ...] | None:
    block, found = generic.regions[0].blocks[0], []
    for value, map_, argument in zip(list(generic.operands)[:inputs], all_maps, block.arguments):
        if not is_read(argument):
            found.append(None)
            continue
        constant = filled(value) if isinstance(value.type, ir.RankedTensorType) else None
        if constant is not None:
            with ir.InsertionPoint.at_block_begin(block):
                argument.replace_all_uses_with(arith.constant(constant.type, constant))
            found.append(None)
            continue
        place = placed(kernel, value, map_) if isinstance(value.type, ir.RankedTensorType) else None
        if place is None:
            return None
        found.append(place)
    return tuple(found)
