"""Merge reductions over the same loops into one operation with all of their results, so that what they read is read once."""

from collections.abc import Sequence

from inferno.mlir import ir, linalg
from inferno.passes.generics import input_count, inputs, kinds, maps, outputs
from inferno.passes.programs import whole_of
from inferno.schedule.analysis.accesses import loop_sizes


def merge_generics(generics: Sequence[ir.Operation]) -> ir.Operation | None:
    """One ``linalg.generic`` in the place of the last of several, which have the same loops and do not read each other's results; the others are
    erased.  None, and nothing is changed, if they are not of that kind."""
    first = generics[0]
    if any(kinds(g) != kinds(first) or loop_sizes(g) != loop_sizes(first) for g in generics) or loop_sizes(first) is None:
        return None
    made = {r for g in generics for r in g.results}
    if any(whole_of(v) in made for g in generics for v in g.operands):
        return None
    read: list[tuple[ir.Value, ir.AffineMap]] = []
    for g in generics:
        for value, map_ in zip(inputs(g), maps(g)):
            if not any(value == v and map_ == m for v, m in read):
                read.append((value, map_))
    outs = [(v, m) for g in generics for v, m in zip(outputs(g), maps(g)[input_count(g):])]
    with ir.InsertionPoint(generics[-1]), generics[-1].location:
        every = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for _, m in (*read, *outs)])
        results = [r.type for g in generics for r in g.results]
        merged = linalg.GenericOp(results, [v for v, _ in read], [v for v, _ in outs], every, first.attributes["iterator_types"])
        types = [v.type.element_type for v, _ in (*read, *outs)]
        block = merged.regions[0].blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
    place, results = len(read), []
    for g in generics:
        body, count = g.regions[0].blocks[0], input_count(g)
        given = [next(i for i, (v, m) in enumerate(read) if v == value and m == map_) for value, map_ in zip(list(g.operands)[:count], maps(g))]
        known = dict(zip(body.arguments, [*(block.arguments[i] for i in given), *list(block.arguments)[place:place + len(g.results)]]))
        place += len(g.results)
        with ir.InsertionPoint(block):
            for op in [o.operation for o in body.operations]:
                operands = [known.get(v, v) for v in op.operands]
                if op.name == "linalg.yield":
                    results += operands
                    continue
                new = op.clone()
                for i, v in enumerate(operands):
                    new.operands[i] = v
                known.update(zip(op.results, new.results))
    with ir.InsertionPoint(block):
        linalg.YieldOp(results)
    replaced = iter(merged.operation.results)
    for g in generics:
        for old in g.results:
            old.replace_all_uses_with(next(replaced))
    for g in generics:
        g.erase()
    return merged.operation
