"""On the CPU, fuse kernels that follow each other and go over the same rows (softmax, layer norm).

A kernel goes over R rows where its results' first dimensions have R points, each a loop of its own, and row r of what the
kernels exchange is written and read by row r alone.  The merged kernel holds their operations one after the other and has
the attribute ``inferno.rows``; its generator does all of a row before the next one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from inferno.mlir import func, ir, walk
from inferno.passes.deduplicate_kernels import deduplicate_kernels
from inferno.passes.generics import REDUCTION, input_count, kinds, maps
from inferno.passes.programs import VIEWS, callee, main_and_kernels, root_of
from inferno.schedule.analysis.accesses import loop_sizes
from inferno.schedule.cpu.library import choose as choose_library
from inferno.schedule.passes.edges import edges_of
from inferno.schedule.passes.merge_calls import joint_kernel, replace_calls
from inferno.schedule.passes.rewrite import erase_unused
from inferno.target import find_target

ROWS = "inferno.rows"
_BESIDES = ("arith.constant", "tensor.empty", "linalg.fill", "func.return")
# A row's loop is vectorized along it: with fewer points than 2 to 4 vectors, a loop across rows is as good.
SHORTEST = 64
# Rows that threads can share; with fewer, the elements in all that one thread does in a few microseconds.
FEW, SMALL = 64, 1 << 16


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
    main, kernels = main_and_kernels(module)
    if main is None:
        return
    known = {name: _read(kernel, target) for name, kernel in kernels.items()}
    groups = [g for g in _groups(main, known) if g.reduces and len(g.calls) > 1]
    for group in groups:
        with module.context, ir.Location.unknown():
            _merge(module, kernels, group)
    if groups:
        erase_unused(module, main)
        deduplicate_kernels(module)


def _read(kernel: func.FuncOp, target: str) -> _Kernel | None:
    """None for a kernel that is not one operation over rows."""
    operations = [o.operation for o in kernel.regions[0].blocks[0].operations]
    generics = [o for o in operations if o.name == "linalg.generic"]
    if len(generics) != 1 or any(o.name not in _BESIDES for o in operations if o != generics[0]) or "inferno.schedule" in kernel.attributes:
        return None
    generic, kind, sizes = generics[0], kinds(generics[0]), loop_sizes(generics[0])
    if sizes is None or any(not isinstance(s, int) for s in sizes) or 0 in sizes or choose_library(kernel, find_target(target)) is not None:
        return None
    if any(isinstance(v.type, ir.RankedTensorType) for o in walk(generic) if o != generic for v in o.operands):
        return None
    reduction = math.prod(s for s, k in zip(sizes, kind) if k == REDUCTION)
    reduces = REDUCTION in kind
    if reduces and reduction < SHORTEST:
        return None
    found: dict[int, frozenset[int]] = {}
    first = maps(generic)[input_count(generic)].results
    for rank in range(1, len(first) + 1):
        loops = [_position(e) for e in first[:rank]]
        if None in loops or any(kind[d] == REDUCTION for d in loops):
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
        if op.name == "tensor.empty" or op.name in VIEWS:
            continue
        kernel = known.get(callee(op)) if op.name == "func.call" else None
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
        root = root_of(value)
        if root in made:
            common = {r for r in common if number in kernel.rows[r]}
            related = True
        related = related or any(
            root == root_of(v) and number in kernel.rows[r] and i in known[callee(c)].rows[r]
            for r in common for c in group.calls for i, v in enumerate(c.operands)
        )
    return common if related else set()


def _merge(module: ir.Module, kernels: dict[str, func.FuncOp], group: _Group) -> None:
    edges = edges_of(group.calls, views=True)
    merged = joint_kernel(module, kernels, edges, "rows_")
    merged.attributes[ROWS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), max(group.rows))
    replace_calls(edges, merged)
