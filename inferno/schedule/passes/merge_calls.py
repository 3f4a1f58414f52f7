"""Replace several calls of kernels by one call of a kernel that holds the operations of all."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

from inferno.dialect.sizes import SIZES, sizes_attribute, symbol_attributes
from inferno.mlir import clone_onto, func, ir, owner, tensor, users
from inferno.passes.programs import VIEWS, callee
from inferno.passes.shapes import function_of, is_dynamic, shape, symbol_arguments
from inferno.passes.size_values import materialise, mixed
from inferno.schedule.passes.calls import empty_like, free_name, in_order, inputs_of, tell_sources
from inferno.schedule.passes.edges import Edges, pattern
from inferno.schedule.passes.size_factors import in_factors
from inferno.size_forms import substitute
from inferno.symbolic import Int, Symbol, Undecided, bounds, divisor, hint, size_of


Renamed = dict[Symbol, Int]


def names_of(*calls: ir.Operation) -> str:
    """What the kernels of calls are called, without the numbers that make names unique."""
    return "_".join(callee(c).rstrip("_0123456789") for c in calls)


def joint_name(module: ir.Module, calls: Sequence[ir.Operation], begin: str = "") -> str:
    """A name for the kernel that these calls become."""
    return free_name(module, begin + names_of(*calls))


def size_attributes(parts: Sequence[tuple[func.FuncOp, Sequence[int | None]]], count: int) -> tuple[list[dict[str, ir.Attribute]], list[Renamed]]:
    """What each of a function's ``count`` arguments says of sizes that vary, where the arguments of every part are some of them, by number, or
    none of them; and for each part its symbols by the function's."""
    found: list[dict[str, ir.Attribute]] = [{} for _ in range(count)]
    symbols: dict[int, Symbol] = {}
    renamed: list[Renamed] = []
    for kernel, numbers in parts:
        own = {s: numbers[v.arg_number] for s, v in symbol_arguments(kernel.operation).items()}
        for symbol, number in own.items():
            symbols.setdefault(number, replace(symbol, name=f"n{len(symbols)}"))
        renamed.append({s: size_of(symbols[number]) for s, number in own.items()})
    ordered = [symbols[n] for n in sorted(symbols)]
    for number, symbol in symbols.items():
        found[number] = symbol_attributes(symbol)
    for (kernel, numbers), names in zip(parts, renamed):
        for argument, number in zip(kernel.entry_block.arguments, numbers):
            if number is not None and is_dynamic(argument):
                found[number] = {SIZES: sizes_attribute([substitute(s, names) for s in shape(argument)], ordered)}
    return found, renamed


def joint_kernel(module: ir.Module, kernels: dict[str, func.FuncOp], edges: Edges, begin: str = "") -> func.FuncOp:
    """``merged_kernel``, named after the calls."""
    return merged_kernel(kernels, edges, joint_name(module, edges.calls, begin))


def merged_kernel(kernels: dict[str, func.FuncOp], edges: Edges, name: str) -> func.FuncOp:
    """The kernel function, in front of the first call's, with the operations of all calls in their order; ``kernels`` are by name."""
    taken = (*edges.captured, *edges.exported)
    types = [v.type for v in taken]
    if edges.sizes:
        said, renamed, inside = _sizes_by_symbols(kernels, edges)
    else:
        places = {v: i for i, v in enumerate(taken)}
        parts = [(kernels[callee(c)], [places.get(v) for v in (*inputs_of(c), *c.results)]) for c in edges.calls]
        (said, renamed), inside = size_attributes(parts, len(types)), {}
    with ir.InsertionPoint(kernels[callee(edges.calls[0])]):
        merged = func.FuncOp(name, (types, [r.type for r in edges.exported]), visibility="private")
    block = merged.add_entry_block()
    known: dict[ir.Value, ir.Value] = dict(zip(edges.captured, block.arguments))
    destinations = dict(zip(edges.exported, list(block.arguments)[len(edges.captured):]))
    if any(said):
        merged.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in said])
    with ir.InsertionPoint(block):
        known.update({v: materialise(size, symbol_arguments(merged.operation)) for v, size in inside.items()})
        for call, names in zip(edges.calls, renamed):
            _inline(kernels[callee(call)], call, known, destinations, names)
        func.ReturnOp([known[r] for r in edges.exported])
    return merged


@dataclass
class Merges:
    """Replaces calls by one of a kernel that does what they do, where there is one.  ``kernels`` by their names; ``made``: those that stand for calls, by the
    patterns of these, None where they stay as they are: equal layers are asked about once."""

    module: ir.Module
    kernels: dict[str, func.FuncOp]
    made: dict[Hashable, func.FuncOp | None] = field(default_factory=dict)

    def kernel(self, edges: Edges, build: Callable[[Edges], func.FuncOp | None]) -> func.FuncOp | None:
        """The kernel that ``build`` makes of calls of this pattern; None where it makes none."""
        key = pattern(edges)
        if key not in self.made:
            self.made[key] = build(edges)
        return self.made[key]

    def replace(self, edges: Edges, build: Callable[[Edges], func.FuncOp | None]) -> ir.Operation | None:
        """Replace calls by one of the kernel that ``build`` makes of them; the new call, None where it makes none."""
        kernel = self.kernel(edges, build)
        if kernel is None:
            return None
        defer(edges)
        return replace_calls(edges, kernel)

    def merge(self, edges: Edges, takes: Callable[[func.FuncOp], bool], name: str = "") -> ir.Operation | None:
        """The same, of the kernel with the operations of all, where that ``takes`` it."""
        return self.replace(edges, lambda edges: self.taken(edges, takes, name))

    def taken(self, edges: Edges, takes: Callable[[func.FuncOp], bool], name: str = "") -> func.FuncOp | None:
        """The kernel with the operations of all calls, where that ``takes`` it, which may change it: it is one of ``kernels`` from now on, and is called
        ``name``, by default as all that it stands for.  None where it is not taken, or where that depends on the sizes of a call."""
        merged = merged_kernel(self.kernels, edges, free_name(self.module, name or names_of(*edges.calls)))
        try:
            taken = takes(merged)
        except Undecided:
            taken = False
        if not taken:
            merged.operation.erase()
            return None
        self.kernels[merged.name.value] = merged
        return merged


def _sizes_by_symbols(kernels: dict[str, func.FuncOp], edges: Edges) -> tuple[list[dict[str, ir.Attribute]], list[Renamed], dict[ir.Value, Int]]:
    """As ``size_attributes``, where a symbol or a factor of sizes of ``@main`` is a symbol of the function's; and sizes of ``@main`` by these."""
    owned = {v: s for s, v in symbol_arguments(function_of(edges.calls[0])).items()}
    taken = edges.factors or {v: size_of(owned[v]) for v in edges.captured if v in owned}
    own = {v: _as_symbol(f"n{i}", size) for i, (v, size) in enumerate(taken.items())}

    def inside(size: Int) -> Int:
        if edges.factors:
            return in_factors(size, list(taken.values()), [size_of(s) for s in own.values()])
        return substitute(size, {owned[v]: size_of(s) for v, s in own.items()})

    said = []
    for value in (*edges.captured, *edges.exported):
        sized = {SIZES: sizes_attribute([inside(s) for s in shape(value)], list(own.values()))} if is_dynamic(value) else {}
        said.append(symbol_attributes(own[value]) if value in own else sized)
    sizes_inside = {v: inside(size) for v, size in edges.sizes.items()}
    renamed = []
    for call in edges.calls:
        symbols, given = symbol_arguments(kernels[callee(call)].operation), list(call.operands)
        renamed.append({s: sizes_inside[given[v.arg_number]] for s, v in symbols.items()})
    return said, renamed, sizes_inside


def _as_symbol(name: str, size: Int) -> Symbol:
    """A symbol of which the same is known as of a size."""
    low, high = bounds(size)
    return Symbol(name, max(low, 0), high, divisor(size), hint(size))


def _inline(
    kernel: func.FuncOp, call: ir.Operation, known: dict[ir.Value, ir.Value], destinations: dict[ir.Value, ir.Value], names: Renamed,
) -> None:
    """Clone the kernel's operations; a result that stays inside gets a tensor of its own."""
    values = [clone_view(v, known) for v in inputs_of(call)]
    merged = ir.InsertionPoint.current.block.owner
    for result, own in zip(call.results, list(kernel.entry_block.arguments)[len(values):]):
        if result not in destinations:
            destinations[result] = tensor.EmptyOp(mixed([substitute(s, names) for s in shape(own)], merged), result.type.element_type).result
        values.append(destinations[result])
    here = dict(zip(kernel.regions[0].blocks[0].arguments, values))
    for op in kernel.regions[0].blocks[0].operations:
        op = op.operation
        if op.name == "func.return":
            known.update(zip(call.results, (here[v] for v in op.operands)))
            return
        clone_onto(op, here)


def clone_view(value: ir.Value, known: dict[ir.Value, ir.Value]) -> ir.Value:
    """A copy, at the insertion point, of the views by which a value is what is ``known``, which gets them."""
    if value in known:
        return known[value]
    op = owner(value)
    operands = [clone_view(v, known) for v in op.operands]
    new = op.clone()
    for i, v in enumerate(operands):
        new.operands[i] = v
    known[value] = new.results[0]
    return known[value]


def defer(edges: Edges) -> None:
    """Move what reads the calls' results behind the last one."""
    first, at = edges.calls[0], edges.calls[-1]
    inside, between = set(edges.calls), set()
    pending = [u for v in edges.exported for u in users(v)]
    while pending:
        op = pending.pop()
        if op not in inside and op not in between and op.is_before_in_block(at) and not op.is_before_in_block(first):
            between.add(op)
            pending += [u for r in op.results for u in users(r)]
    for op in in_order(between):
        op.move_after(at)
        at = op


def replace_calls(edges: Edges, merged: func.FuncOp) -> ir.Operation:
    """Call ``merged`` in place of the last call; reshapes of the old calls' results go behind it.  Returns the new call."""
    with ir.InsertionPoint(edges.calls[-1]):
        empties = empty_like(edges.exported)
        new = func.CallOp(merged, [*edges.captured, *empties]).operation
    tell_sources(new, edges.calls)
    for old, result in zip(edges.exported, new.results):
        pending = [u for u in users(old) if u.name in VIEWS]
        old.replace_all_uses_with(result)
        at = new
        while pending:
            view = pending.pop(0)
            if view.is_before_in_block(at):  # what is behind it already may have sizes that are computed behind it, too
                view.move_after(at)
                at = view
            pending += [u for u in users(view.results[0]) if u.name in VIEWS]
    for call in reversed(edges.calls):
        for result in call.results:
            for user in list(users(result)):
                erase_views(user)
        call.erase()
    return new


def erase_views(op: ir.Operation) -> None:
    """A reshape between the calls, which their kernel has a copy of."""
    for user in list(users(op.results[0])):
        erase_views(user)
    op.erase()
