"""What a kernel computes that is attention: two contractions with a softmax of whole rows between them.

``parse_attention`` reads a kernel function of structured operations by what they compute: a contraction of q and k, elementwise operations on
the scores, a softmax along the keys, and a contraction with v.  Nothing depends on how that was written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Any

from inferno.mlir import arith, func, ir, isolated_copy, run_upstream
from inferno.passes.programs import takes_tf32
from inferno.passes.shapes import row_major, shape
from inferno.schedule.analysis.accesses import Access, destination_index, knows_arguments, merge
from inferno.schedule.analysis.expression_maps import access_of, make_map
from inferno.schedule.analysis.expression_tracer import LoopNumbers, NotUnderstood, Tracer
from inferno.schedule.analysis.expressions import CONTRACTION, MAXIMUM, READ, SUM, Expression, Loop, Loops, place_of
from inferno.schedule.analysis.pages import PAGED, Pages, paged_access
from inferno.schedule.attention.bands import Band, compares, find_band, find_reach
from inferno.schedule.attention.cache_writes import CacheWrite, take_writes
from inferno.schedule.attention.dropout import Dropout, find_factor, read_dropout
from inferno.schedule.attention.listed_blocks import Blocks, Peeled, Whole, make_blocks, only_hides, peel_blocks, queries_of
from inferno.schedule.matmul.contraction import Destination, Group, Map, Operand
from inferno.symbolic import Int, hint


@dataclass(frozen=True)
class AttentionKernel:
    """With b over the batch (sequences, heads), i over queries, j over keys, d over the depth and e over the width::

        s[b, i, j] = score(scale * sum over d of q[b, i, d] * k[b, j, d])       -inf where j is outside of band(i)
        o[b, i, e] = sum over j of weight(softmax over j of s)[b, i, j] * v[b, j, e]
        destinations = epilogue(o)

    All accesses have one stride for each loop of ``sizes``: 0 where a tensor does not depend on it.  Loops of the batch may be any number: with
    grouped queries k and v have stride 0 along one of them.  Products are summed, and scores and softmax computed, in float32.

    ``q.element``, ``k.element`` and ``v.element`` are the types that are multiplied; the weights are rounded to ``weight`` (v's type).
    ``score`` is inlined for each point: its ``accumulators`` are the scaled product, its other ``sources`` are read, its ``indices`` are among the
    loops of batch, queries and keys, and its only result is float32; None where the scaled product is the score.  What it yields outside
    of the band does not matter, and it need not be computed there.
    ``epilogue``: its ``accumulators`` are o as float32; None where o is stored as it is, or only rounded to the destination's type.
    ``reach``: the last key that is seen is at most this element (an integer) plus the number that the second has as its offset; its strides are 0 or
    more.  ``score`` says so too: keys beyond need not be looked at.
    ``blocks``: what is seen of blocks of queries and keys; there is no band then.
    ``sink``: a further score of each row, for which there is no value.
    ``safe``: a row whose scores are all -inf gives weights of 0; otherwise of NaN, as torch's softmax has it.
    ``logarithms``: where the logarithm of each row's sum of exponentials goes, as float32; infinity for a row without a key, where ``safe``.
    ``largest``: where each row's largest score goes, as float32, 0 for a row without a key, where ``safe``; the exponentials are those of what scores are
    below it then.
    ``of_logarithm``: what is stored in the logarithm's place, whose ``accumulators`` are that logarithm; None where that is stored itself.
    ``dropout``: by what weights are multiplied then, which their sums do not see.
    ``tf32``: products of float32 factors may be rounded to TF32.
    ``writes``: what is written to k and v before they are read; those that are written to are arguments that the kernel returns.
    """

    sizes: tuple[Int, ...]
    batch: Group
    queries: Group
    keys: Group
    depth: Group
    width: Group
    q: Operand
    k: Operand
    v: Operand
    weight: ir.Type
    scale: float
    score: Map | None
    band: Band | None
    reach: tuple[Access, Access] | None
    blocks: Blocks | None
    sink: Access | None
    safe: bool
    epilogue: Map | None
    destinations: tuple[Destination, ...]
    logarithms: Access | None
    largest: Access | None
    of_logarithm: Map | None
    dropout: Dropout | None
    tf32: bool
    module: ir.Module = field(repr=False)  # a copy of the kernel, and what is made of it: operations are in there
    writes: tuple[CacheWrite, ...] = ()

    @property
    def shared(self) -> tuple[int, ...]:
        """Loops of the batch along which neither k nor v moves: heads that share them."""
        return tuple(d for d in self.batch.dims if all(a.strides[d] == 0 for o in (self.k, self.v) for a in o.reads))

    @property
    def pages(self) -> tuple[Pages, ...]:
        """How those of keys and values lie that are in pages."""
        return tuple(o.pages for o in (self.k, self.v) if o.pages is not None)

    @property
    def score_extras(self) -> tuple[Access, ...]:
        """The tensors that the score function reads: masks, biases."""
        return tuple(dict.fromkeys(sources(self.score) + (() if self.blocks is None else sources(self.blocks.whole.score))))

    @property
    def extras(self) -> tuple[Access, ...]:
        """Those that the epilogue reads."""
        return sources(self.epilogue)

    @property
    def statistics(self) -> tuple[Access, ...]:
        """Where numbers of rows go."""
        return tuple(x for x in (self.logarithms, self.largest) if x is not None)

    @property
    def uneven(self) -> bool:
        """Whether some queries see more blocks of keys than others."""
        return self.band is not None or self.blocks is not None

    @property
    def varies(self) -> bool:
        """Whether any size is known only at the call."""
        return any(not isinstance(s, int) for s in self.sizes)


def sources(map_: Map | None) -> tuple[Access, ...]:
    """What a map reads."""
    return () if map_ is None else tuple(s for s in map_.sources if s is not None)


def parse_attention(kernel: func.FuncOp) -> AttentionKernel | None:
    """What ``kernel`` computes, or None if it is anything else."""
    return parse_by(Parser, kernel)


def parse_by(parser: type["Parser"], kernel: func.FuncOp) -> Any | None:
    """What a parser makes of ``kernel``, or None where it does not understand it."""
    if not knows_arguments(kernel):
        return None
    if sum(op.operation.name.startswith("linalg.") for op in kernel.entry_block.operations) < 5:
        return None
    with kernel.context, kernel.location:
        from inferno.passes.split_contractions import split_contractions

        module = isolated_copy(kernel)
        writes = take_writes(module.body.operations[0]) if parser.writes else ()
        if writes is None:
            return None
        split_contractions(module)
        run_upstream(module, "func.func(linalg-generalize-named-ops)")
        found = Tracer(module.body.operations[0], parser.pages, parser.blocks).run(lambda tracer: parser(tracer, module).parse())
        return replace(found, writes=writes) if found is not None and writes else found


@dataclass(frozen=True)
class _Products:
    """The ``result`` is a sum of ``weights`` times ``v``.  These are a softmax of ``scores``, which dropout has multiplied by ``factor``; scores are computed
    of ``product``, that of ``q`` and ``k`` times ``scale``.  ``peeled``: the table of a mask of blocks; ``safe`` and ``sink`` as in AttentionKernel."""

    result: Expression
    weights: Expression
    factor: Expression | None
    scores: Expression
    safe: bool
    sink: Expression | None
    peeled: Peeled | None
    product: Expression
    q: Expression
    k: Expression
    v: Expression
    scale: float


@dataclass(frozen=True)
class _Seen:
    """``scores`` inside of ``band``, computed of ``inner``, which is the product times ``scale``.  ``queries``: the loops that the band or the table of blocks
    is in terms of, if there are some; ``whole``: what whole blocks of the table are."""

    scores: Expression
    inner: Expression
    scale: float
    band: Band | None
    queries: list[Loop] | None
    whole: Whole | None


class Parser:
    """One try, which ends in ``NotUnderstood`` where the kernel is anything else.  ``pages``: whether keys and values may lie in pages;
    ``blocks``: whether a table may say what is seen; ``writes``: whether keys and values may be written to before."""

    pages = blocks = writes = True

    def __init__(self, tracer: Tracer, module: ir.Module) -> None:
        self.tracer, self.module, self.kernel = tracer, module, tracer.kernel
        self.of_logarithm: Map | None = None

    def parse(self) -> AttentionKernel:
        results, out = self.results()
        found = self.products(results)
        width = self.number_loops(out, found)
        logarithms, largest = self.statistics(found.product, found.safe, found.sink)
        shared = [r for r in self.rows if r not in found.v.moves_with() | found.k.moves_with()]
        seen = self.seen(found, shared)
        destinations, epilogue = self.destinations(results, out, found.result)
        operands = [self.operand(e) for e in (found.q, found.k, found.v)]
        score = None if seen.scores is seen.inner else make_map(self.module, [seen.scores], self.numbers, seen.inner)
        reach = self.reach(seen.scores) if found.peeled is None else None
        sink = None if found.sink is None else access_of(found.sink, self.numbers)
        self.accesses = [
            *(reach or ()), *(() if sink is None else (sink,)),
            *(a for e in operands for a in ((e.access,) if e.pages else e.reads)),
            *(a for m in (score, None if seen.whole is None else seen.whole.score, epilogue) if m is not None for a in m.sources if a is not None),
            *(d.access for d in destinations), *(x for x in (logarithms, largest) if x is not None),
        ]
        dropout = None if found.factor is None else read_dropout(found.factor, self.keys, self.numbers)
        self.accesses += [] if dropout is None else dropout.places
        keys = self.group(self.keys)  # of which tables of pages say nothing
        self.accesses += [e.pages.table for e in operands if e.pages]
        queries = seen.queries or self.queries(shared)
        blocks = None if found.peeled is None else self.blocks_of(found.peeled, queries, seen.whole)
        if reach is not None and any(reach[0].strides[self.numbers[loop]] for loop in queries):
            reach = None  # each query of a tile has its own
        batch, queries, depth, width = (self.group(g) for g in ([r for r in self.rows if r not in queries], queries, found.product.loops, width))
        groups = [batch, queries, keys, depth, width]
        if not all(g.flat for g in groups[1:]) or not (dropout is None or dropout.has(queries.dims, self.sizes)):
            raise NotUnderstood
        weight = found.weights.operands[0].type if found.weights.name == "arith.extf" else found.weights.type
        return AttentionKernel(
            self.sizes, *groups, *operands, weight, seen.scale * found.scale, score, seen.band, reach, blocks, sink, found.safe, epilogue, destinations,
            logarithms, largest, self.of_logarithm, dropout, takes_tf32(self.kernel), self.module,
        )

    def products(self, results: Sequence[Expression]) -> _Products:
        """The two contractions, and the softmax between them."""
        o = only(results, CONTRACTION)
        weights, v = sorted(o.operands, key=lambda e: not holds(e, MAXIMUM))
        self.keys = o.loops
        undropped, factor = find_factor(unrounded(weights))
        scores, safe, sink = self.softmax(undropped)
        scores, peeled = peel_blocks(self.tracer, scores) if self.blocks else (scores, None)
        product = only([scores], CONTRACTION)
        k, q = sorted(product.operands, key=lambda e: not e.moves_with() & set(self.keys))
        if any(holds(e, CONTRACTION, MAXIMUM, SUM) for e in (q, k, v)) or q.moves_with() & set(self.keys):
            raise NotUnderstood
        if holds(scores, MAXIMUM, SUM, PAGED, stop=product) or any(holds(r, MAXIMUM, SUM, PAGED, stop=o) for r in results) or holds(q, PAGED):
            raise NotUnderstood
        (q, of_q), (k, of_k) = map(unscaled, (q, k))
        return _Products(o, weights, factor, scores, safe, sink, peeled, product, q, k, v, of_q * of_k)

    def number_loops(self, out: Sequence[Loops], found: _Products) -> list[Loop]:
        """Give all loops numbers: rows, keys, the product's, and those over the width, which are returned."""
        self.rows, width = self.classify(out, found.scores, found.v)
        if found.sink is not None and (found.sink.name != READ or found.sink.moves_with() - set(self.rows)):
            raise NotUnderstood
        loops = [*self.rows, *self.keys, *found.product.loops, *width]
        self.numbers = LoopNumbers((loop, n) for n, loop in enumerate(loops))
        if len(self.numbers) != len(loops):
            raise NotUnderstood
        self.sizes = tuple(loop.size for loop in loops)
        return width

    def seen(self, found: _Products, shared: Sequence[Loop]) -> _Seen:
        """The scores where they are seen, which a band or a table of blocks says."""
        scores, band = self.tracer.rebuild(found.scores, plain), None
        if found.peeled is None:
            scores, band, queries = find_band(self.tracer, scores, self.keys, shared)
        else:
            queries = queries_of(found.peeled, self.rows, shared)
        scores, inner, scale = self.scale(scores, found.product)
        whole = None if found.peeled is None else self.whole(found.peeled, scores, inner, scale, found.product)
        return _Seen(scores, inner, scale, band, queries, whole)

    def blocks_of(self, peeled: Peeled, queries: Sequence[Loop], whole: Whole) -> Blocks:
        """What a mask's table says of blocks of queries and keys."""
        outer = [r for r in self.rows if r not in queries]
        blocks = make_blocks(peeled, queries, self.keys, outer, lambda e: access_of(e, self.numbers), whole)
        if blocks is None:
            raise NotUnderstood
        self.accesses.append(blocks.table)
        return blocks

    def results(self) -> tuple[list[Expression], list[Loops]]:
        """An element of each result, and the loops of the dimensions, which all have in common but for the last ones, if those have a number a row."""
        returned, arguments = list(list(self.kernel.entry_block.operations)[-1].operands), len(self.kernel.type.inputs)
        if any(destination_index(self.kernel, v) != arguments - len(returned) + i for i, v in enumerate(returned)):
            raise NotUnderstood
        self.first = arguments - len(returned)
        self.returned = [v for v in returned if shape(v) == shape(returned[0])]
        self.of_rows = returned[len(self.returned):]
        returned = self.returned
        if len({shape(v) for v in returned}) != 1:
            raise NotUnderstood
        out = [self.tracer.loops(("out", d), size) for d, size in enumerate(shape(returned[0]))]
        return [self.tracer.element(v, list(map(place_of, out))) for v in returned], out

    def softmax(self, weights: Expression) -> tuple[Expression, bool, Expression | None]:
        """The scores, whether a row of nothing but -inf gives 0, and a score without a value."""
        safe = weights.name == "arith.select"
        if safe:
            condition, zero, weights = weights.operands
            if zero.constant != 0:
                raise NotUnderstood
        if weights.name != "arith.divf":
            raise NotUnderstood
        power, total = weights.operands
        total, further = _with_one(total, "arith.addf", SUM)
        if total.name != SUM or total.operands[0] is not power or power.name != "math.exp" or power.operands[0].name != "arith.subf":
            raise NotUnderstood
        scores, most = power.operands[0].operands
        sink = None
        if further is not None:
            if further.name != "math.exp" or further.operands[0].name != "arith.subf" or further.operands[0].operands[1] is not most or safe:
                raise NotUnderstood
            most, sink = _with_one(most, "arith.maximumf", MAXIMUM)
            if sink is None or further.operands[0].operands[0] is not sink:
                raise NotUnderstood
        if most.name != MAXIMUM or most.operands[0] is not scores or not isinstance(scores.type, ir.F32Type) or total.type != scores.type:
            raise NotUnderstood
        if safe and not (compares(condition, arith.CmpFPredicate.OEQ) and unrounded(condition.operands[0]) is most
                         and condition.operands[1].constant == -inf):
            raise NotUnderstood
        self.most, self.total = most, total
        while sink is not None:  # from both the same may be subtracted
            ends = [unrounded(e) for e in (scores, sink)]
            less = {unrounded(e.operands[1]) for e in ends if e.name == "arith.subf"}
            if any(e.name != "arith.subf" for e in ends) or len(less) != 1 or less.pop().moves_with() & set(self.keys):
                sink = ends[1]
                break
            scores, sink = (e.operands[0] for e in ends)
        return scores, safe, sink

    def classify(self, out: Sequence[Loops], scores: Expression, v: Expression) -> tuple[list[Loop], list[Loop]]:
        """The results' loops that the scores are computed for, and those that only v and the results have."""
        loops, of_scores, of_v = [loop for own in out for loop in own], scores.moves_with(), v.moves_with()
        if any(loop not in of_scores and loop not in of_v for loop in loops) or (of_scores | of_v) - {*loops, *self.keys}:
            raise NotUnderstood
        return [loop for loop in loops if loop in of_scores], [loop for loop in loops if loop not in of_scores]

    def statistics(self, product: Expression, safe: bool, sink: Expression | None) -> tuple[Access | None, Access | None]:
        """Where the results go that have a number a row; NotUnderstood unless those are the logarithm of the row's sum of exponentials, or what is made of
        it, or that below the largest score, and that score."""
        if self.of_rows and (sink is not None or len(self.of_rows) > 2):
            raise NotUnderstood
        found = dict(self.statistic(i, product, safe) for i in range(len(self.of_rows)))
        if set(found) not in (set(), {"totals"}, {"largest", "logarithm"}) or len(found) != len(self.of_rows):
            raise NotUnderstood
        return found.get("totals", found.get("logarithm")), found.get("largest")

    def statistic(self, number: int, product: Expression, safe: bool) -> tuple[str, Access]:
        """What the result is, and where it goes."""
        type_ = self.of_rows[number].type
        if not type_.has_static_shape or not isinstance(type_.element_type, ir.F32Type):
            raise NotUnderstood
        out = [self.tracer.loops(("rows", number, d), size) for d, size in enumerate(type_.shape)]
        found = self.tracer.element(self.of_rows[number], list(map(place_of, out)))
        own = only([found], CONTRACTION)
        # Its loops are the others' that the product's factors move with in the same way.
        names: dict[Loop, Loop] = {}
        for mine, theirs in zip((e for e in own.walk() if e.name == READ), (e for e in product.walk() if e.name == READ)):
            steps = {step: loop for loop, step in theirs.strides if loop not in self.keys and loop not in product.loops}
            names |= {loop: steps[step] for loop, step in mine.strides if loop.base[0] == "rows" and step in steps}
        found = self.tracer.renamed(found, names)
        kind = self.kind(found, safe)
        if kind is None and number == 0:
            total = next((e for e in found.walk() if self.kind(e, safe) == "totals"), None)
            if total is None or holds(found, MAXIMUM, SUM, READ, stop=total):
                raise NotUnderstood
            kind, self.of_logarithm = "totals", make_map(self.module, [found], self.numbers, total)
        if kind is None:
            raise NotUnderstood
        strides = [0] * len(self.numbers)
        for loops, step in zip(out, row_major(list(type_.shape))):
            for i, loop in enumerate(loops):
                strides[self.numbers[names[loop]]] = step * prod(inner.size for inner in loops[i + 1:])
        return kind, Access(self.first + len(self.returned) + number, type_.element_type, tuple(strides), 0, tuple(type_.shape))

    def kind(self, found: Expression, safe: bool) -> str | None:
        """Which of them a number of a row is, if it has for a row without a key, where that is ``safe``, what it has to have."""
        wanted = None
        if found.name == "arith.select":
            condition, constant, found = found.operands
            wanted = constant.constant
            if wanted is None or not compares(condition, arith.CmpFPredicate.OEQ) or unrounded(condition.operands[0]) is not self.most:
                return None
            if condition.operands[1].constant != -inf:
                return None
        if found is self.most:
            return "largest" if wanted in ((0.0,) if safe else (None, -inf)) else None
        if safe == (wanted is None):
            return None
        if found.name == "arith.addf" and self.most in found.operands:
            kind, (found,) = "totals", [e for e in found.operands if e is not self.most] or [found]
        else:
            kind = "logarithm"
        return kind if wanted in (None, inf) and found.name == "math.log" and found.operands[0] is self.total else None

    def whole(self, peeled: Peeled, scores: Expression, inner: Expression, scale: float, product: Expression) -> Whole:
        """Of whole blocks, beside what ``scale`` says of the scores of masked ones."""
        found = self.tracer.rebuild(peeled.whole, plain)
        if found.moves_with() - set(self.numbers):
            raise NotUnderstood
        found, *same = self.scale(found, product)
        if same != [inner, scale]:
            raise NotUnderstood
        score = None if found is inner else make_map(self.module, [found], self.numbers, inner)
        return Whole(score, found is not scores, found is inner and only_hides(scores, inner))

    def scale(self, scores: Expression, product: Expression) -> tuple[Expression, Expression, float]:
        """The scores, the scaled product that they are computed of, and the factor."""
        factor = 1.0
        while True:
            readers = _readers(scores, product)
            if len(readers) != 1:
                return scores, product, factor
            scaled, more = _factor(readers[0])
            if scaled is not product:
                return scores, product, factor
            factor, product = factor * more, readers[0]

    def reach(self, scores: Expression) -> tuple[Access, Access] | None:
        found = find_reach(scores, self.keys)
        if found is None:
            return None
        steps = tuple(found.steps.get(loop, 0) for loop in self.numbers)
        return access_of(found.element, self.numbers), Access(-1, found.element.type, steps, found.high, ())

    def operand(self, factor: Expression) -> Operand:
        extend = factor.name if factor.name == "arith.extf" else None
        element = factor.operands[0] if extend else factor
        if element.name == READ:
            return Operand(element.type, access_of(element, self.numbers), None, extend)
        if element.name == PAGED:
            found = paged_access(element, self.keys, self.rows, lambda e: access_of(e, self.numbers))
            if found is None:
                raise NotUnderstood
            return Operand(element.type, found[0], None, extend, pages=found[1])
        if holds(element, PAGED) or not element.moves_with():
            raise NotUnderstood
        return Operand(element.type, None, make_map(self.module, [element], self.numbers), extend)

    def destinations(self, results: Sequence[Expression], out: Sequence[Loops], o: Expression) -> tuple[tuple[Destination, ...], Map | None]:
        plain = all(unrounded(r) is o for r in results)
        strides = [0] * len(self.numbers)
        for own, step in zip(out, row_major([prod(loop.size for loop in own) for own in out])):
            for i, loop in enumerate(own):
                strides[self.numbers[loop]] = step * prod(inner.size for inner in own[i + 1:])
        found = [
            Destination(None if plain else i, Access(self.first + i, v.type.element_type, tuple(strides), 0, shape(v)))
            for i, v in enumerate(self.returned)
        ]
        return tuple(found), None if plain else make_map(self.module, results, self.numbers, o)

    def queries(self, shared: Sequence[Loop]) -> list[Loop]:
        """The largest loop along which neither k nor v moves, or one that varies, with those that it can be one loop with."""
        found = [max(shared, key=lambda loop: (not isinstance(loop.size, int), hint(loop.size)))] if shared else []
        for loop in shared:
            more = [s for s in shared if s in (*found, loop)]
            if loop not in found and self.group(more).flat:
                found = more
        return found

    def group(self, loops: Sequence[Loop]) -> Group:
        dims = [self.numbers[loop] for loop in loops]
        runs = merge(dims, self.sizes, self.accesses)
        return Group(tuple(dims), tuple(self.sizes[d] for d in dims), tuple(map(tuple, runs)))


def only(expressions: Sequence[Expression], name: str) -> Expression:
    """The one of this name that they are computed of."""
    found = {e for one in expressions for e in one.walk(lambda e: e.name == name) if e.name == name}
    if len(found) != 1:
        raise NotUnderstood
    return found.pop()


def _with_one(expression: Expression, combined: str, name: str) -> tuple[Expression, Expression | None]:
    """What is called ``name`` and the other one that it is ``combined`` with; an expression alone where it is not."""
    if expression.name != combined or [e.name for e in expression.operands].count(name) != 1:
        return expression, None
    return tuple(sorted(expression.operands, key=lambda e: e.name != name))


def _readers(expression: Expression, inner: Expression) -> list[Expression]:
    """What in an expression takes ``inner`` as it is."""
    return [e for e in expression.walk(lambda e: e is inner) if e is not inner and inner in e.operands]


def holds(expression: Expression, *names: str, stop: Expression | None = None) -> bool:
    return any(e.name in names for e in expression.walk(lambda e: e is stop))


def unrounded(expression: Expression) -> Expression:
    """What is in front of changes of precision."""
    while expression.name in ("arith.extf", "arith.truncf"):
        expression = expression.operands[0]
    return expression


def _factor(expression: Expression) -> tuple[Expression, float]:
    """What is multiplied by a positive constant, and that; 1 where it is nothing like that."""
    if expression.name == "arith.divf":
        value, constant = expression.operands
        return (value, 1 / constant.constant) if constant.constant is not None and 0 < constant.constant < inf else (expression, 1.0)
    values = [e for e in expression.operands if e.constant is None]
    constants = [e.constant for e in expression.operands if e.constant is not None]
    if expression.name != "arith.mulf" or len(constants) != 1 or not 0 < constants[0] < inf:
        return expression, 1.0
    return values[0], constants[0]


def unscaled(factor: Expression) -> tuple[Expression, float]:
    """A factor of a contraction before it was multiplied by a constant, and rounded, and that constant."""
    widened = factor.name == "arith.extf"
    scaled = factor.operands[0] if widened else factor
    if widened and scaled.name == "arith.truncf":
        scaled = scaled.operands[0]
    value, constant = _factor(scaled)
    before = value.operands[0] if value.name == "arith.extf" else value
    fits = before.type == factor.operands[0].type and value.type == factor.type if widened else value.type == factor.type
    fits = fits and (constant <= 1 or not isinstance(before.type, ir.F16Type))  # what is too large for it is infinite
    return (value, constant) if value is not scaled and fits else (factor, 1.0)


def plain(expression: Expression) -> Expression:
    """A score without what rounds it to a type with its range and widens it again, and without what adds nothing."""
    if expression.name == "arith.extf" and (inner := expression.operands[0]).name == "arith.truncf" and inner.operands[0].type == expression.type:
        return inner.operands[0] if isinstance(inner.type, ir.BF16Type) else expression
    if expression.name == "arith.addf" and any(e.constant == 0 for e in expression.operands):
        return next(e for e in expression.operands if e.constant != 0 or e is expression.operands[1])
    return expression
