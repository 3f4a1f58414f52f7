"""On the CPU, make kernels that follow each other and go over the same rows (softmax, layer norm) one kernel.

A kernel goes over R rows where its results' first dimensions have R points, each a loop of its own, and row r of what the
kernels exchange is written and read by row r alone.  The merged kernel holds their operations one after the other and has
the attribute ``inferno.rows``; its generator does all of a row before the next one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from inferno.mlir import func, ir, owner, tensor, users, walk
from inferno.passes.deduplicate_kernels import deduplicate_kernels
from inferno.schedule.accesses import iterators, loop_sizes, maps
from inferno.schedule.library import choose as choose_library
from inferno.target import find_target

ROWS = "inferno.rows"
_VIEWS = {"tensor.expand_shape", "tensor.collapse_shape", "tensor.cast"}
_BESIDES = ("arith.constant", "tensor.empty", "linalg.fill", "func.return")
# A row's loop is vectorized along it: with fewer points than 2 to 4 vectors, a loop across rows is as good.
SHORTEST = 64
# Rows that threads can share; with fewer, the elements in all that one thread does in a few microseconds.
FEW, SMALL = 64, 1 << 16
_LONGEST_NAME = 40


@dataclass(frozen=True)
class _Kernel:
    """What is known of a kernel: for each number of rows it may have, the numbers of the arguments that are cut into them."""

    rows: dict[int, frozenset[int]]
    reduces: bool


@dataclass
class _Group:
    """Calls that follow each other; ``rows`` are the numbers of rows they have in common."""

    calls: list[ir.Operation] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)
    reduces: bool = False


def fuse_rows(module: ir.Module, target: str) -> None:
    """Rewrite ``@main`` and its kernels; nothing for targets other than the CPU."""
    if find_target(target).kind != "cpu":
        return
    kernels = {o.name.value: o for o in module.body.operations if isinstance(o, func.FuncOp) and not o.is_external}
    main = kernels.pop("main", None)
    kernels.pop("prepare", None)
    if main is None:
        return
    known = {name: _read(kernel, target) for name, kernel in kernels.items()}
    groups = [g for g in _groups(main, known) if g.reduces and len(g.calls) > 1]
    for group in groups:
        with module.context, ir.Location.unknown():
            _merge(module, kernels, group)
    if groups:
        _erase_unused(module, main)
        deduplicate_kernels(module)


def _callee(call: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def _root(value: ir.Value) -> ir.Value:
    while (op := owner(value)) is not None and op.name in _VIEWS:
        value = op.operands[0]
    return value


def _read(kernel: func.FuncOp, target: str) -> _Kernel | None:
    """None for a kernel that is not one operation over rows."""
    operations = [o.operation for o in kernel.regions[0].blocks[0].operations]
    generics = [o for o in operations if o.name == "linalg.generic"]
    if len(generics) != 1 or any(o.name not in _BESIDES for o in operations if o != generics[0]) or "inferno.schedule" in kernel.attributes:
        return None
    generic, kinds, sizes = generics[0], iterators(generics[0]), loop_sizes(generics[0])
    if sizes is None or any(not isinstance(s, int) for s in sizes) or 0 in sizes or choose_library(kernel, find_target(target)) is not None:
        return None
    if any(isinstance(v.type, ir.RankedTensorType) for o in walk(generic) if o != generic for v in o.operands):
        return None
    reduction = math.prod(s for s, k in zip(sizes, kinds) if k == "reduction")
    reduces = "reduction" in kinds
    if reduces and reduction < SHORTEST:
        return None
    found: dict[int, frozenset[int]] = {}
    first = maps(generic)[len(generic.operands) - len(generic.results)].results
    for rank in range(1, len(first) + 1):
        loops = [_position(e) for e in first[:rank]]
        if None in loops or any(kinds[d] == "reduction" for d in loops):
            break
        rows = math.prod(sizes[d] for d in loops)
        inside = math.prod(sizes) // rows
        if (inside != 1 or reduces) and inside < SHORTEST:
            break
        if rows < FEW and math.prod(sizes) > SMALL:
            continue
        cut = [_is_cut(v, m, loops, sizes) for v, m in zip(generic.operands, maps(generic))]
        if all(cut[len(cut) - len(generic.results):]):
            found[rows] = frozenset(
                ir.BlockArgument(v).arg_number for v, c in zip(generic.operands, cut) if c and isinstance(v, ir.BlockArgument)
            ) | frozenset(range(len(kernel.type.inputs) - len(kernel.type.results), len(kernel.type.inputs)))
    return _Kernel(found, reduces) if found else None


def _position(expr: ir.AffineExpr) -> int | None:
    return ir.AffineDimExpr(expr).position if isinstance(expr, ir.AffineDimExpr) else None


def _is_cut(value: ir.Value, map_: ir.AffineMap, loops: list[int], sizes: tuple[int, ...]) -> bool:
    """Whether the operand's first dimensions are exactly ``loops``, and the others do not depend on them."""
    places = [_position(e) for e in map_.results]
    if not isinstance(value.type, ir.RankedTensorType) or None in places or places[: len(loops)] != loops:
        return False
    return not set(loops) & set(places[len(loops):]) and all(s == sizes[p] for s, p in zip(value.type.shape, places))


def _groups(main: func.FuncOp, known: dict[str, _Kernel | None]) -> Iterator[_Group]:
    group = _Group()
    for op in [o.operation for o in main.regions[0].blocks[0].operations]:
        if op.name == "tensor.empty" or op.name in _VIEWS:
            continue
        kernel = known.get(_callee(op)) if op.name == "func.call" else None
        if kernel is None:
            yield group
            group = _Group()
            continue
        common = _common(group, op, kernel, known)
        if not common:
            yield group
            group, common = _Group(), set(kernel.rows)
        group.calls.append(op)
        group.rows = common
        group.reduces |= kernel.reduces
    yield group


def _common(group: _Group, call: ir.Operation, kernel: _Kernel, known: dict[str, _Kernel | None]) -> set[int]:
    """The numbers of rows that the group has with ``call`` in it; none where the call has nothing to do with the group."""
    made = {r for c in group.calls for r in c.results}
    common = group.rows & set(kernel.rows)
    related = False
    for number, value in enumerate(list(call.operands)[: len(call.operands) - len(call.results)]):
        root = _root(value)
        if root in made:
            common = {r for r in common if number in kernel.rows[r]}
            related = True
        related = related or any(
            root == _root(v) and number in kernel.rows[r] and i in known[_callee(c)].rows[r]
            for r in common for c in group.calls for i, v in enumerate(c.operands)
        )
    return common if related else set()


def _merge(module: ir.Module, kernels: dict[str, func.FuncOp], group: _Group) -> None:
    calls, last = group.calls, group.calls[-1]
    made = {r: None for c in calls for r in c.results}
    inside = set(calls)
    exported = [r for r in made if _leaves(r, inside)]
    captured = list(dict.fromkeys(
        root for c in calls for v in list(c.operands)[: len(c.operands) - len(c.results)] if (root := _root(v)) not in made
    ))
    types = [v.type for v in (*captured, *exported)]
    with ir.InsertionPoint(kernels[_callee(calls[0])]):
        merged = func.FuncOp(_name(module, calls), (types, [r.type for r in exported]), visibility="private")
    merged.attributes[ROWS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), max(group.rows))
    block = merged.add_entry_block()
    known: dict[ir.Value, ir.Value] = dict(zip(captured, block.arguments))
    destinations = dict(zip(exported, list(block.arguments)[len(captured):]))
    with ir.InsertionPoint(block):
        for call in calls:
            _inline(kernels[_callee(call)], call, known, destinations)
        func.ReturnOp([known[r] for r in exported])
    with ir.InsertionPoint(last):
        empties = [tensor.EmptyOp(list(r.type.shape), r.type.element_type).result for r in exported]
        new = func.CallOp(merged, [*captured, *empties])
    sources = dict.fromkeys(s.value for c in calls if "inferno.source" in c.attributes for s in map(ir.StringAttr, c.attributes["inferno.source"]))
    new.operation.attributes["inferno.source"] = ir.ArrayAttr.get([ir.StringAttr.get(s) for s in sources])
    _replace(calls, exported, list(new.results), new.operation)


def _leaves(value: ir.Value, inside: set[ir.Operation]) -> bool:
    """Whether anything outside of the group reads ``value``, as it is or reshaped."""
    return any(_leaves(u.results[0], inside) if u.name in _VIEWS else u not in inside for u in users(value))


def _inline(kernel: func.FuncOp, call: ir.Operation, known: dict[ir.Value, ir.Value], destinations: dict[ir.Value, ir.Value]) -> None:
    """Clone the kernel's operations; a result that stays inside gets a tensor of its own."""
    inputs = len(call.operands) - len(call.results)
    values = [_clone_view(v, known) for v in list(call.operands)[:inputs]]
    values += [destinations[r] if r in destinations else tensor.EmptyOp(list(r.type.shape), r.type.element_type).result for r in call.results]
    here = dict(zip(kernel.regions[0].blocks[0].arguments, values))
    for op in kernel.regions[0].blocks[0].operations:
        op = op.operation
        if op.name == "func.return":
            known.update(zip(call.results, (here[v] for v in op.operands)))
            return
        new = op.clone()
        for i, v in enumerate(op.operands):
            new.operands[i] = here[v]
        for outer in {v for o in walk(op) if o != op for v in o.operands if v in here}:
            for o in walk(new):
                o.replace_uses_of_with(outer, here[outer])
        here.update(zip(op.results, new.results))


def _clone_view(value: ir.Value, known: dict[ir.Value, ir.Value]) -> ir.Value:
    if value in known:
        return known[value]
    op = owner(value)
    source = _clone_view(op.operands[0], known)
    new = op.clone()
    new.operands[0] = source
    known[value] = new.results[0]
    return known[value]


def _replace(calls: list[ir.Operation], exported: list[ir.Value], results: list[ir.Value], new: ir.Operation) -> None:
    """Let what is outside read the new call; reshapes of the old calls' results go behind it."""
    for old, result in zip(exported, results):
        pending = [u for u in users(old) if u.name in _VIEWS]
        old.replace_all_uses_with(result)
        at = new
        while pending:
            view = pending.pop(0)
            view.move_after(at)
            at = view
            pending += [u for u in users(view.results[0]) if u.name in _VIEWS]
    for call in reversed(calls):
        for result in call.results:
            for user in list(users(result)):
                _erase_views(user)
        call.erase()


def _erase_views(op: ir.Operation) -> None:
    """A reshape inside of the group, which its kernel has a copy of."""
    for user in list(users(op.results[0])):
        _erase_views(user)
    op.erase()


def _erase_unused(module: ir.Module, main: func.FuncOp) -> None:
    called = {_callee(c) for c in walk(module.operation, "func.call")}
    for op in [o for o in module.body.operations if isinstance(o, func.FuncOp) and "sym_visibility" in o.attributes]:
        if op.name.value not in called:
            op.operation.erase()
    for op in reversed(walk(main, "tensor.empty", *_VIEWS)):
        if not any(True for _ in op.results[0].uses):
            op.erase()


def _name(module: ir.Module, calls: list[ir.Operation]) -> str:
    taken = {ir.StringAttr(op.attributes["sym_name"]).value for op in module.body.operations if "sym_name" in op.attributes}
    base = "rows_" + "_".join(_callee(c).rstrip("_0123456789") for c in calls)
    base = base[:_LONGEST_NAME].rstrip("_")
    name, count = base, 1
    while name in taken:
        name, count = f"{base}_{count}", count + 1
    return name
