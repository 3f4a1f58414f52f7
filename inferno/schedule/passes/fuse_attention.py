"""Two contractions with a softmax between them, or of heads whose weights are made of each score alone, become one kernel, in which scores are never in memory.

What lies around them comes along: what scales, masks and casts the scores, masks that are computed of nothing but numbers of queries and keys,
copies and transposes that made q, k or v of something else, and one of the result.  Where that is not one kernel for a generator, less is
tried.  The scores and all that is made of them must have no other reader: what is trained, or returns its weights, stays as it is.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from inferno.mlir import func, ir, makes, owner, walk
from inferno.passes.contraction import parse_fused
from inferno.passes.generics import PARALLEL, body, dims, inputs, is_elementwise, is_reduction, kinds, maps, yielded
from inferno.passes.programs import PRECISION, VIEWS, callee, keep_precision, operations_in, readers, root_of, wants_library
from inferno.passes.shapes import UnknownSize, shape
from inferno.schedule.analysis.accesses import loop_sizes
from inferno.schedule.analysis.unchanged import unchanged
from inferno.schedule.assign import chooser_of
from inferno.schedule.attention import attention, short_attention
from inferno.schedule.attention.parser import parse_attention
from inferno.schedule.matmul.product_times import contraction_time
from inferno.schedule.passes.call_times import elementwise_time
from inferno.schedule.passes.calls import free_name, inputs_of, places_in
from inferno.schedule.passes.edges import Edges, by_symbols, edges_of
from inferno.schedule.passes.merge_calls import defer, merged_kernel, replace_calls
from inferno.schedule.passes.operation_order import order_by_need
from inferno.schedule.passes.rewrite import Rewrite
from inferno.schedule.passes.split_operands import split_scores
from inferno.symbolic import Undecided, hint, product
from inferno.target import find_target

_GENERATORS = ("short_attention", "attention")
_MOST = 24  # kernels that are looked at in front of a contraction: between it and the one in front there are at most seven
_PARTS = 1.15  # the parts' time over its estimate is 0.9 to 1.95 (an H200, float32, 38 shapes; 4x16x128x128 apart 19.9 us, 14.4 estimated, as one kernel 15.2)
UNKNOWN = 0.0  # microseconds of what is made one kernel without a comparison
_LESS = 4  # times fewer elements read than made: a mask that is rather computed again
_BESIDES = {"arith.constant", "tensor.empty", "tensor.extract_slice", "func.return", *VIEWS}
_SCALING = {"arith.extf", "arith.truncf", "arith.mulf", "arith.divf", "arith.constant", "linalg.yield"}
_PLACING = {
    "linalg.index", "arith.index_cast", "arith.addi", "arith.subi", "arith.cmpi", "arith.select", "arith.constant", "tensor.extract", "linalg.yield",
    "arith.divsi", "arith.divui", "arith.remui", "scf.if", "scf.yield",
}

Calls = tuple[ir.Operation, ...]


ATTENTION = "inferno.attention"
"""On a module whose attention is to be one kernel."""


def fuse_attention(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels, where the module asks for it and a generator for the target takes such a kernel.  ``always``: "1" for
    wherever it is one."""
    asked = ATTENTION in module.operation.attributes
    if asked:
        del module.operation.attributes[ATTENTION]
    machine = find_target(target)
    choosers = [c for name in _GENERATORS if (c := chooser_of(name, machine)) is not None]
    if always != "1" and (not asked or not choosers or wants_library(module)):
        return

    def time(kernel: func.FuncOp) -> float | None:
        if always == "1":
            return None if parse_attention(kernel) is None else UNKNOWN
        with unchanged(kernel):
            if all(choose(kernel, machine) is None for choose in choosers):
                return None
            return min((t for form in (attention, short_attention) if (t := form.time(kernel, machine)) is not None), default=UNKNOWN)

    Fusion.rewrite(module, machine, time=time, pages=True)
    if machine.hopper and split_scores(module, machine):  # queries and keys are read as they lie in memory
        Fusion.rewrite(module, machine, time=time, pages=True)


@dataclass
class Fusion(Rewrite):
    """``time``: the microseconds of a kernel, UNKNOWN where sizes vary or times are not compared, None where no generator takes it; ``pages``: whether a
    kernel may look up itself where keys and values are."""

    time: Callable[[func.FuncOp], float | None]
    pages: bool = False

    def run(self) -> bool:
        """Whether anything was fused."""
        self.survey()
        contractions = [call for call in self.order if self.called(call, self.multiplies)]  # of others, some are erased on the way
        return sum([self.fuse(call) for call in contractions]) > 0

    def survey(self) -> None:
        """See what the kernels do, and in which order they are called."""
        self.multiplies = {name for name, k in self.kernels.items() if any(parse_fused(o) is not None for o in walk(k, "linalg.generic"))}
        self.powers = {name for name, k in self.kernels.items() if walk(k, "math.exp")}
        self.largest = {name for name, k in self.kernels.items() if walk(k, "arith.maximumf", "arith.maxnumf")}
        self.sums = {name for name, k in self.kernels.items() if name not in self.multiplies and _is_sum(k)}
        self.moves = {name for name, k in self.kernels.items() if _is_map(k, moves=True)}
        self.maps = {name for name, k in self.kernels.items() if _is_map(k, moves=False)}
        self.gathers = {name for name, k in self.kernels.items() if self.pages and _is_gather(k)}
        self.placed = {name for name in self.maps if _only_reads(self.kernels[name])}
        self.number()

    def number(self) -> None:
        """Number the operations of ``@main`` in their order."""
        self.order = places_in(self.main)

    def called(self, op: ir.Operation | None, names: Container[str]) -> bool:
        return op is not None and op.name == "func.call" and callee(op) in names

    def fuse(self, last: ir.Operation) -> bool:
        """Make one kernel of a contraction, a softmax in front of it and what is around them; whether that was done."""
        for core in self.cores(last):
            moves, masks = self.before(core, self.is_move), self.before(core, self.is_mask)
            rows = core[:core.index(last):-1]  # what is made of the softmax's rows, if anything is
            pages = self.before(core, lambda call: self.is_page(call) and not self.is_written(call, last))
            around = self.before(core, lambda call: self.is_move(call) or self.is_mask(call))  # a mask of what a move has made, too
            around = [] if {*around} == {*moves, *masks} else [around]
            inside = dict.fromkeys((*around, (*pages, *masks), pages, (*moves, *masks), moves, masks, ()))
            for (behind, gates), more in ((after, m) for after in self.after(core, last) for m in inside):
                ends = ((*behind, last)[0], *rows)
                if self.merge(tuple(sorted({*core, *more, *behind, *gates}, key=self.order.__getitem__)), {*core, *behind, *gates}, ends):
                    self.number()  # the new call, too
                    return True
        return False

    def merge(self, calls: Calls, owned: set[ir.Operation], ends: Calls) -> bool:
        """Replace calls by one that has the results of the ``ends``; those that are not ``owned`` stay if others read them."""
        edges = replace(edges_of(calls, views=False), exported=tuple(r for c in ends for r in c.results))
        try:
            edges = by_symbols(edges)
        except UnknownSize:
            return False
        kernel = self.merges.kernel(edges, lambda edges: self.build(edges, owned))
        if kernel is None:
            return False
        gone: list[ir.Operation] = []
        for call in reversed(calls):
            if call in owned or all(u in gone for r in call.results for u in readers(r)):
                gone.insert(0, call)
        edges = replace(edges, calls=tuple(gone))
        if len(ends) > 1:
            defer(edges)
        replace_calls(edges, kernel)
        return True

    def build(self, edges: Edges, owned: set[ir.Operation]) -> func.FuncOp | None:
        """The kernel of calls, if a generator takes it and it pays."""
        kernel = self.joined_kernel(edges, "attention")
        time = self.time(kernel)
        if time is not None and self.pays([time], owned, _PARTS if (a := parse_attention(kernel)) is None or a.softmax else 1.0):
            return kernel
        kernel.operation.erase()
        return None

    def joined_kernel(self, edges: Edges, name: str) -> func.FuncOp:
        """A kernel with the operations of all calls, each of which is where it is needed first."""
        kernels = [self.kernels[callee(c)] for c in edges.calls]
        kernel = merged_kernel(self.kernels, edges, free_name(self.module, name))
        if all(PRECISION in k.attributes for k in kernels):
            keep_precision(kernel, kernels[-1])
        order_by_need(kernel.entry_block)
        return kernel

    def pays(self, times: Sequence[float], calls: Iterable[ir.Operation], slower: float = _PARTS) -> bool:
        """Whether kernels of these ``times`` take at most ``slower`` times as long as the calls that become these, the products and what is between them as
        one kernel: tiles of many short rows are mostly padding (an H200, bf16: 16384x4x4x32 276 us, apart 40; 4096x4x9x32 65 and 30; 8192x1x16x16 32 and 37;
        2048x3x49x32 44 and 240)."""
        if UNKNOWN in times:
            return True
        parts = [self.kernels[callee(c)] for c in calls]
        try:
            products = [(k, contraction_time(k, self.target)) for k in parts]
        except Undecided:
            return True
        between = max((elementwise_time(k) for k, time in products if time is None), default=0.0)
        return sum(times) < slower * (sum(time for _, time in products if time is not None) + between)

    def cores(self, last: ir.Operation) -> Iterator[Calls]:
        """Contractions that ``last`` may be computed of by way of exponentials, with all that is between; nothing else reads these, but for one
        call or two behind ``last``, which are of their rows."""
        seen: list[ir.Operation] = []
        pending, starts = self.makers([last]), []
        while pending and len(seen) < _MOST:
            call = pending.pop(0)
            if call in seen or call in starts:
                continue
            if callee(call) in self.multiplies:
                starts.append(call)
            else:
                seen.append(call)
                pending += self.makers([call])
        ordered = sorted(seen, key=self.order.__getitem__)
        found = [self.core(start, ordered, last) for start in sorted(starts, key=self.order.__getitem__, reverse=True)]
        for core, is_less in sorted(found, key=lambda each: each[1]):
            if is_less and not self.is_by_element(core):
                continue  # it makes a mask, which would be made again for each of what it is the same for
            inside, named = {*core, last}, {callee(c) for c in core}
            if (named & self.powers and (named & self.largest or _is_batched(self.kernels[callee(core[0])]))) or self.is_by_element(core):
                outside = {u for c in core for r in c.results for u in readers(r) if u not in inside}
                if not outside:
                    yield (*core, last)
                elif len(outside) <= 2 and all(self.is_of_rows(call, core) for call in outside):
                    yield (*core, last, *sorted(outside, key=self.order.__getitem__))

    def core(self, start: ir.Operation, ordered: Sequence[ir.Operation], last: ir.Operation) -> tuple[Calls, bool]:
        """A contraction and what is made of it in front of ``last``, and whether it makes fewer numbers than there are weights."""
        core = [start]
        for call in ordered:
            if any(m in core for m in self.makers([call])):
                core.append(call)
        weights = max((sum(map(_elements, m.results)) for m in self.makers([last]) if m in core), default=0)
        return tuple(core), sum(map(_elements, start.results)) < weights

    def is_by_element(self, core: Calls) -> bool:
        """Whether weights are made of scores one by one, but for sums, of several heads: a product behind a product is rarely something for one kernel."""
        start, *between = core
        return _is_batched(self.kernels[callee(start)]) and all(self.called(c, self.maps | self.moves | self.sums) for c in between)

    def is_of_rows(self, call: ir.Operation, core: Calls) -> bool:
        """Whether a call computes, of rows of the softmax, something that only others read."""
        return self.called(call, self.maps) and all(any(makes(c, root_of(v)) for c in core) for v in inputs_of(call))

    def makers(self, calls: Sequence[ir.Operation]) -> list[ir.Operation]:
        """The calls of kernels whose results these take."""
        made = [owner(root_of(v)) for c in calls for v in inputs_of(c)]
        return list(dict.fromkeys(m for m in made if self.called(m, self.kernels) and m not in calls))

    def before(self, core: Calls, wanted: Callable[[ir.Operation], bool]) -> Calls:
        """The calls that make what the core takes, one behind the other, as far as they are ``wanted``."""
        found: list[ir.Operation] = []
        pending = self.makers(core)
        while pending and len(found) < _MOST:
            call = pending.pop(0)
            if call not in found and wanted(call):
                found.append(call)
                pending += self.makers([call])
        return tuple(found)

    def is_move(self, call: ir.Operation) -> bool:
        return callee(call) in self.moves

    def is_page(self, call: ir.Operation) -> bool:
        """Whether a call moves or gathers something, or makes places of fewer ones."""
        if callee(call) in self.moves | self.gathers:
            return True
        return self.pages and all(str(r.type.element_type) in ("i32", "i64") for r in call.results) and self.is_mask(call)

    def is_written(self, call: ir.Operation, last: ir.Operation) -> bool:
        """Whether what a call gathers of the program's is written to before ``last``, which would keep the old value until then: a copy."""
        own = [root_of(v) for v in inputs_of(call)] if callee(call) in self.gathers else []
        users = {u for v in own if isinstance(v, ir.BlockArgument) for u in readers(v) if self.order[call] < self.order[u] < self.order[last]}
        return any(r.name == "func.return" for u in users for made in u.results for r in readers(made))

    def is_mask(self, call: ir.Operation) -> bool:
        """Whether a call makes much of little, element by element, or only reads elements at other places."""
        if callee(call) not in self.maps:
            return False
        less = 1 if callee(call) in self.placed else _LESS
        return sum(map(self.little, inputs_of(call))) * less <= sum(map(_elements, call.results))

    def little(self, value: ir.Value) -> int:
        """Elements of a tensor, or of what it is read from."""
        made = owner(root_of(value))
        return min([_elements(value), *([sum(map(_elements, inputs_of(made)))] if self.called(made, self.placed) else [])])

    def behind(self, last: ir.Operation) -> Calls:
        """What only moves the result, if nothing else reads it."""
        found = list(dict.fromkeys(readers(last.results[0]))) if len(last.results) == 1 else []
        return tuple(found) if len(found) == 1 and self.called(found[0], self.moves) else ()

    def after(self, core: Calls, last: ir.Operation) -> list[tuple[Calls, Calls]]:
        """What only moves the result, and what is then made of it element by element, if nothing else reads it, the last one first, and gates that are made
        for these alone; as much as there is, and less."""
        found = list(dict.fromkeys((self.behind(last), ())))
        end = (*found[0], last)[0]
        read = list(dict.fromkeys(readers(end.results[0]))) if len(end.results) == 1 else []
        if len(read) == 1 and self.called(read[0], self.maps) and self.is_as_much(read[0], last):
            found.insert(0, (read[0], *found[0]))
        together = (*found[0], last)
        gates = [c for c in self.makers(together) if c not in core and self.called(c, self.maps | self.moves) and self.is_as_much(c, last)]
        gates = tuple(c for c in gates if all(u in together for r in c.results for u in readers(r)))
        return [*([(found[0], gates)] if gates else []), *((behind, ()) for behind in found)]

    def is_as_much(self, call: ir.Operation, last: ir.Operation) -> bool:
        return len(call.results) == 1 and _elements(call.results[0]) == _elements(last.results[0])


def _is_map(kernel: func.FuncOp, moves: bool) -> bool:
    """Whether a kernel with one result is elementwise; with ``moves`` one that only moves, widens or scales one tensor's elements."""
    structured = [o for o in operations_in(kernel) if o.name not in _BESIDES]
    if len(kernel.type.results) != 1 or not structured:
        return False
    if moves:
        return all(o.name in ("linalg.copy", "linalg.transpose", "linalg.broadcast") or _only_scales(o) for o in structured)
    return all(is_elementwise(o) for o in structured)


def _is_sum(kernel: func.FuncOp) -> bool:
    """Whether a kernel adds up what it makes element by element."""
    structured = [o for o in operations_in(kernel) if o.name == "linalg.generic"]
    return bool(structured) and all(is_elementwise(o) or is_reduction(o) for o in structured) and not walk(kernel, "arith.maximumf", "arith.maxnumf")


def _is_batched(kernel: func.FuncOp) -> bool:
    """Whether a kernel's products are of several pairs of matrices, as those of heads are."""
    def shared(op: ir.Operation) -> bool:
        used, sizes = [dims(m) for m in maps(op)[:2]], loop_sizes(op)
        return None not in used and sizes is not None and any(kinds(op)[d] == PARALLEL and sizes[d] != 1 for d in {*used[0]} & {*used[1]})

    return all(shared(o) for o in walk(kernel, "linalg.generic") if parse_fused(o) is not None)


def _is_gather(kernel: func.FuncOp) -> bool:
    """Whether a kernel with one result reads a tensor at places that another one says, and does nothing with its elements."""
    structured = [o for o in operations_in(kernel) if o.name not in _BESIDES]
    if len(kernel.type.results) != 1 or len(structured) != 1 or not is_elementwise(structured[0]):
        return False
    operations = [o.operation for o in body(structured[0]).operations]
    made = owner(operations[-1].operands[0])
    return made is not None and made.name == "tensor.extract" and sum(o.name == "tensor.extract" for o in operations) == 1


def _only_reads(kernel: func.FuncOp) -> bool:
    """Whether a kernel's only operation yields an element whose place is computed of numbers of loops by sums and quotients, or a constant beside those that
    there are."""
    structured = [o for o in operations_in(kernel) if o.name not in _BESIDES]
    if len(structured) != 1 or structured[0].name != "linalg.generic" or inputs(structured[0]):
        return False
    names = [o.name for o in walk(structured[0]) if o != structured[0]]
    made = owner(yielded(structured[0])[0])
    return made is not None and made.name in ("tensor.extract", "scf.if") and names.count("tensor.extract") == 1 and _PLACING.issuperset(names)


def _only_scales(op: ir.Operation) -> bool:
    """Whether an operation reads one tensor and does nothing with its elements but to multiply and convert them."""
    return is_elementwise(op) and len(inputs(op)) == 1 and all(o.operation.name in _SCALING for o in body(op).operations)


def _elements(value: ir.Value) -> int:
    """In the example."""
    return hint(product(shape(value))) if isinstance(value.type, ir.RankedTensorType) else 0
