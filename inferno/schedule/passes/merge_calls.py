"""Replace several calls of kernels by one call of a kernel that holds the operations of all."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from inferno.dialect.sizes import SIZES, sizes_attribute, symbol_attributes
from inferno.errors import UnsupportedOperation
from inferno.mlir import clone_onto, func, ir, is_read, owner, tensor, users, walk
from inferno.passes.deduplicate_kernels import deduplicate_kernels
from inferno.passes.programs import VIEWS, callee, main_and_kernels, operations_in, readers, root_of
from inferno.passes.shapes import function_of, is_dynamic, known_size, materialise, mixed, shape, symbol_arguments
from inferno.schedule.passes.calls import empty_like, free_name, in_order, inputs_of, tell_sources, tensors_of
from inferno.schedule.passes.size_factors import factors_of, in_factors
from inferno.size_forms import substitute
from inferno.symbolic import Int, Symbol, Undecided, bounds, divisor, hint, size_of, symbols_of
from inferno.target import Target


Renamed = dict[Symbol, Int]


@dataclass(frozen=True)
class Edges:
    """What calls that follow each other have to do with the rest of the program: tensors and sizes that they take, and those of their results that
    are read elsewhere.  ``sizes``: those that are computed of the symbols of ``@main`` that are ``captured`` in their place, or of ``factors``, sizes
    that are."""

    calls: tuple[ir.Operation, ...]
    captured: tuple[ir.Value, ...]
    exported: tuple[ir.Value, ...]
    sizes: Mapping[ir.Value, Int] = field(default_factory=dict)
    factors: Mapping[ir.Value, Int] = field(default_factory=dict)


def edges_of(calls: Sequence[ir.Operation], views: bool) -> Edges:
    """With ``views`` a tensor is taken as it was made, and reshaped inside; otherwise only the calls' own results are."""
    made, inside = {r: None for c in calls for r in c.results}, set(calls)
    captured = (v if not views else root_of(v) for c in calls for v in inputs_of(c) if root_of(v) not in made)
    return Edges(tuple(calls), tuple(dict.fromkeys(captured)), tuple(r for r in made if any(u not in inside for u in readers(r))))


def by_symbols(edges: Edges) -> Edges:
    """The same, in which sizes are the symbols of ``@main`` that they are computed of: then it is known how they depend on each other, and tensors
    that go from one call to another may be reshaped between them.  Where all are products of sizes that have nothing to do with each other, they are
    these, whatever they are computed of.  UnknownSize where a size is not computed of symbols."""
    symbols = symbol_arguments(function_of(edges.calls[0]))
    taken = [v for c in edges.calls for v in inputs_of(c)]
    for value in taken:
        if (op := owner(value)) is not None and op.name in VIEWS:
            taken += op.operands
    known = {v: known_size(v) for v in taken if isinstance(v.type, ir.IndexType)}
    tensors = [v for v in (*taken, *edges.captured, *edges.exported, *(r for c in edges.calls for r in c.results)) if is_dynamic(v)]
    values = {size: v for v, size in known.items()}
    factors = factors_of([*known.values(), *(s for v in tensors for s in shape(v))], values)
    if factors is not None:
        named = {values[f]: f for f in factors}
        return replace(edges, captured=(*named, *(v for v in edges.captured if v not in known)), sizes=known, factors=named)
    needed = [*known.values(), *(s for v in (*edges.captured, *edges.exported) if is_dynamic(v) for s in shape(v))]
    used = dict.fromkeys(symbols[s] for size in needed for s in symbols_of(size))
    return replace(edges, captured=(*used, *(v for v in edges.captured if v not in known)), sizes=known)


def edges_by_symbols(calls: Sequence[ir.Operation], views: bool) -> Edges | None:
    """What calls have to do with the rest, by symbols where they take sizes; None where these are not computed of symbols."""
    found = edges_of(calls, views)
    try:
        return by_symbols(found) if any(isinstance(v.type, ir.IndexType) for v in found.captured) else found
    except UnsupportedOperation:
        return None


def edges_across(calls: Sequence[ir.Operation], views: bool) -> Edges | None:
    """As ``edges_of``; by symbols where tensors whose sizes vary are reshaped on the way into a call, whose sizes say nothing of what they were or of
    what they become; None where these are not computed of symbols."""
    found = edges_of(calls, views)
    ends = {*found.captured, *(r for c in calls for r in c.results)}
    reshaped = [v for c in calls for v in tensors_of(c) if v not in ends]
    try:
        return by_symbols(found) if any(is_dynamic(v) or is_dynamic(root_of(v)) for v in reshaped) else found
    except UnsupportedOperation:
        return None


def pattern(edges: Edges) -> Hashable:
    """What is equal for calls that make equal kernels: which kernels they are of, and what goes from one to another."""
    numbers = {v: i for i, v in enumerate((*edges.captured, *(r for c in edges.calls for r in c.results)))}
    exported = set(edges.exported)
    place = lambda v: (str(edges.sizes[v]) if v in edges.sizes else numbers[v] if v in numbers else numbers[root_of(v)], str(v.type))  # noqa: E731
    taken = tuple(str(v.type) for v in edges.captured)
    return taken, tuple((callee(c), tuple(map(place, inputs_of(c))), tuple(r in exported for r in c.results)) for c in edges.calls)


def reads_reshaped(edges: Edges) -> bool:
    """Whether one of the calls reads another's result reshaped."""
    made = {r for c in edges.calls for r in c.results}
    return any(v not in made and root_of(v) in made for c in edges.calls for v in inputs_of(c))


def stays_in_order(edges: Edges) -> bool:
    """Whether all that reads the calls' results comes behind the last one, and none of the calls reads another's reshaped."""
    made, inside = {r for c in edges.calls for r in c.results}, set(edges.calls)
    return not reads_reshaped(edges) and all(edges.calls[-1].is_before_in_block(u) for r in made for u in readers(r) if u not in inside)


def waits(call: ir.Operation, group: Collection[ir.Operation], places: Mapping[ir.Operation, int]) -> bool:
    """Whether a call needs the result of something outside of the group that needs the group's; ``places`` are ``@main``'s operations by order."""
    first, seen = min(places[c] for c in group), set()
    pending = [made for v in inputs_of(call) if (made := owner(root_of(v))) is not None and made not in group]
    while pending:
        op = pending.pop()
        if op in group:
            return True
        if op in seen or places.get(op, -1) < first:
            continue
        seen.add(op)
        pending += [made for v in op.operands if (made := owner(root_of(v))) is not None]
    return False


def wait_for_each_other(calls: Collection[ir.Operation], places: Mapping[ir.Operation, int]) -> bool:
    """Whether one of the calls needs the result of something outside of them that needs theirs: they cannot be one."""
    return any(waits(c, calls, places) for c in calls)


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


def erase_unused(module: ir.Module, main: func.FuncOp) -> None:
    """Erase kernels that nobody calls any more, and what is left of their destinations."""
    called = {callee(c) for c in walk(module.operation, "func.call")}
    for op in [o for o in module.body.operations if isinstance(o, func.FuncOp) and "sym_visibility" in o.attributes]:
        if op.name.value not in called:
            op.operation.erase()
    for op in reversed(walk(main, "tensor.empty", *VIEWS)):
        if not is_read(op.results[0]):
            op.erase()


@dataclass
class Rewrite(ABC):
    """The state of a pass that rewrites ``@main`` and the kernels that it calls, by name."""

    module: ir.Module
    main: func.FuncOp
    kernels: dict[str, func.FuncOp]
    target: Target

    @abstractmethod
    def run(self) -> bool:
        """Whether anything was changed."""

    @cached_property
    def merges(self) -> Merges:
        """Of these kernels."""
        return Merges(self.module, self.kernels)

    @classmethod
    def rewrite(cls, module: ir.Module, target: Target, **options: Any) -> None:
        """Run it on a module, as ``merge_in`` says, with its further fields."""
        merge_in(module, lambda main, kernels: cls(module, main, kernels, target, **options).run())


def merge_in(module: ir.Module, merge: Callable[[func.FuncOp, dict[str, func.FuncOp]], bool]) -> None:
    """Let ``merge`` rewrite ``@main`` and its kernels, by name, with an open context; where it says that it did, what nobody calls any more goes,
    and equal kernels become one."""
    main, kernels = main_and_kernels(module)
    if main is None:
        return
    with module.context, ir.Location.unknown():
        changed = merge(main, kernels)
    if changed:
        erase_unused(module, main)
        deduplicate_kernels(module)


def rewrite_calls(main: func.FuncOp, rewrite: Callable[[ir.Operation], bool]) -> bool:
    """Let ``rewrite`` put something in the place of ``@main``'s calls, one after the other, what it has put there too; whether it did."""
    changed, place, operations = False, 0, operations_in(main)
    while place < len(operations):
        if operations[place].name == "func.call" and rewrite(operations[place]):
            changed, operations = True, operations_in(main)  # and the next one is here
        else:
            place += 1
    return changed


