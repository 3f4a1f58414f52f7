"""From a kernel function of structured operations to an ``AttentionKernel``, by what they compute: a contraction of q and k, elementwise operations on
the scores, a softmax along the keys, and a contraction with v.  Nothing depends on how that was written."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

from inferno.mlir import arith, func, ir, isolated_copy, run_upstream
from inferno.passes.contraction import parse_fused
from inferno.passes.programs import takes_tf32
from inferno.passes.shapes import row_major, shape
from inferno.passes.split_contractions import split_contractions
from inferno.schedule.analysis.accesses import Access, knows_arguments, merge, written_results
from inferno.schedule.analysis.expression_maps import access_of, make_map
from inferno.schedule.analysis.expression_tracer import LoopNumbers, NotUnderstood, Tracer
from inferno.schedule.analysis.expressions import CONTRACTION, MAXIMUM, READ, SUM, Expression, Loop, Loops, place_of
from inferno.schedule.analysis.pages import PAGED, paged_access
from inferno.schedule.analysis.unchanged import read_by_text
from inferno.schedule.attention.bands import Band, compares, find_band, find_reach
from inferno.schedule.attention.cache_writes import take_writes
from inferno.schedule.attention.divisors import Divided, Divisor, read_divided
from inferno.schedule.attention.dropout import find_factor, read_dropout
from inferno.schedule.attention.kernel import AttentionKernel, sources
from inferno.schedule.attention.listed_blocks import Blocks, Peeled, Whole, make_blocks, only_hides, peel_blocks, queries_of
from inferno.schedule.attention.score_expressions import constant_factor, holds, only, plain, readers_of, unrounded, unscaled
from inferno.schedule.attention.softmax import Softmax, read_softmax
from inferno.schedule.attention.weighting import Weighted, find_weighting, hides_rows
from inferno.schedule.attention.zero_bands import find_zero_band
from inferno.schedule.matmul.contraction import Destination, Group, Map, Operand
from inferno.symbolic import hint


def parse_attention(kernel: func.FuncOp) -> AttentionKernel | None:
    """What ``kernel`` computes, or None if it is anything else."""
    return parse_by(Parser, kernel)


def parse_by(parser: type["Parser"], kernel: func.FuncOp) -> Any | None:
    """What a parser makes of ``kernel``, or None where it does not understand it."""
    if not knows_arguments(kernel):
        return None
    structured = [op.operation for op in kernel.entry_block.operations if op.operation.name.startswith("linalg.")]
    several = len(structured) >= 5 or sum(parse_fused(op) is not None for op in structured if op.name == "linalg.generic") == 2
    return _read(kernel, parser) if several else None


@read_by_text
def _read(kernel: func.FuncOp, parser: type["Parser"]) -> Any | None:
    with kernel.context, kernel.location:
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
    """The ``result`` is a sum of ``weights`` times ``v``.  These are ``scores``, or such that are ``divided``, or a ``softmax`` of them, which dropout has
    multiplied by ``factor``, or of which something ``weighted`` is made; scores are computed of ``product``, that of ``q`` and ``k`` times ``scale``.
    ``peeled``: the table of a mask of blocks."""

    result: Expression
    weights: Expression
    factor: Expression | None
    weighted: Weighted | None
    softmax: Softmax | None
    divided: Divided | None
    scores: Expression
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
        softmax = found.softmax
        logarithms, largest = self.statistics(found.product, softmax)
        shared = [r for r in self.rows if r not in found.v.moves_with() | found.k.moves_with()]
        seen = self.seen(found, shared)
        destinations, epilogue = self.destinations(results, out, found.result)
        operands = [self.operand(e) for e in (found.q, found.k, found.v)]
        score = None if seen.scores is seen.inner else make_map(self.module, [seen.scores], self.numbers, seen.inner)
        weighting = None if found.weighted is None else make_map(self.module, [found.weighted.result], self.numbers, found.weighted.weight)
        reach = self.reach(seen.scores) if found.peeled is None and softmax is not None else None
        sink = None if softmax is None else access_of(softmax.sink, self.numbers) if isinstance(softmax.sink, Expression) else softmax.sink
        self.accesses = [
            *(reach or ()), *([sink] if isinstance(sink, Access) else []),
            *(a for e in operands for a in ((e.access,) if e.pages else e.reads)),
            *(a for m in (None if seen.whole is None else seen.whole.score, weighting, epilogue) for a in sources(m)),
            *(d.access for d in destinations), *(x for x in (logarithms, largest) if x is not None),
        ]
        dropout = None if found.factor is None else read_dropout(found.factor, self.keys, self.numbers)
        self.accesses += [] if dropout is None else dropout.places
        keys, loops, queries = self.sides(seen.queries, shared, [e.pages.table for e in operands if e.pages], list(sources(score)))
        blocks = None if found.peeled is None else self.blocks_of(found.peeled, loops, seen.whole)
        if reach is not None and any(reach[0].strides[self.numbers[loop]] for loop in loops):
            reach = None  # each query of a tile has its own
        batch, depth, width = (self.group(g) for g in ([r for r in self.rows if r not in loops], found.product.loops, width))
        groups = [batch, queries, keys, depth, width]
        if not all(g.flat for g in groups[1:]) or not (dropout is None or dropout.has(queries.dims, self.sizes)):
            raise NotUnderstood
        weight = found.weights.operands[0].type if found.weights.name == "arith.extf" else found.weights.type
        added, safe = (0.0, False) if softmax is None else (softmax.added, softmax.safe)
        return AttentionKernel(
            self.sizes, *groups, *operands, weight, seen.scale * found.scale, score, seen.band, reach, blocks, softmax is not None,
            self.divisor(found.divided), sink, added, safe, epilogue, destinations, logarithms, largest, self.of_logarithm, dropout, weighting,
            takes_tf32(self.kernel), self.module,
        )

    def products(self, results: Sequence[Expression]) -> _Products:
        """The two contractions, and the softmax between them."""
        o = only(results, CONTRACTION)
        weights, v = sorted(o.operands, key=lambda e: not holds(e, CONTRACTION))
        self.keys = o.loops
        factor = weighted = softmax = peeled = None
        divided = None
        if _is_softmax(unrounded(weights)):
            undropped, factor = find_factor(unrounded(weights))
            found, weighted, hidden = find_weighting(undropped)
            softmax = self.softmax(found)
            if hides_rows(hidden, softmax.scores):
                softmax, weighted = replace(softmax, safe=True), None if weighted.chosen else weighted
            scores, peeled = peel_blocks(self.tracer, softmax.scores) if self.blocks else (softmax.scores, None)
        else:
            divided = read_divided(unrounded(weights))
            scores = unrounded(weights) if divided is None else divided.weights
        product = only([scores], CONTRACTION)
        k, q = sorted(product.operands, key=lambda e: not e.moves_with() & set(self.keys))
        if any(holds(e, CONTRACTION, MAXIMUM, SUM) for e in (q, k, v)) or q.moves_with() & set(self.keys) or not k.moves_with() & set(self.keys):
            raise NotUnderstood
        if holds(scores, MAXIMUM, SUM, PAGED, stop=product) or any(holds(r, MAXIMUM, SUM, PAGED, stop=o) for r in results) or holds(q, PAGED):
            raise NotUnderstood
        (q, of_q), (k, of_k) = map(unscaled, (q, k))
        if weighted is not None and holds(weighted.result, CONTRACTION, MAXIMUM, SUM, PAGED, stop=weighted.weight):
            raise NotUnderstood
        return _Products(o, weights, factor, weighted, softmax, divided, scores, peeled, product, q, k, v, of_q * of_k)

    def number_loops(self, out: Sequence[Loops], found: _Products) -> list[Loop]:
        """Give all loops numbers: rows, keys, the product's, and those over the width, which are returned."""
        self.rows, width = self.classify(out, found.scores, found.v)
        if found.weighted is not None and found.weighted.result.moves_with() - {*self.rows, *self.keys}:
            raise NotUnderstood
        sink = None if found.softmax is None else found.softmax.sink
        if isinstance(sink, Expression) and (sink.name != READ or sink.moves_with() - set(self.rows)):
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
            scores, band, queries = (find_zero_band if found.softmax is None else find_band)(self.tracer, scores, self.keys, shared)
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
        results = written_results(self.kernel)
        if not results:
            raise NotUnderstood
        values, (self.first, *_) = zip(*results)
        self.returned = [v for v in values if shape(v) == shape(values[0])]
        self.of_rows = list(values[len(self.returned):])
        if len({shape(v) for v in self.returned}) != 1:
            raise NotUnderstood
        out = [self.tracer.loops(("out", d), size) for d, size in enumerate(shape(values[0]))]
        return [self.tracer.element(v, list(map(place_of, out))) for v in self.returned], out

    def divisor(self, divided: Divided | None) -> Divisor | None:
        if divided is None:
            return None
        plain = divided.divisor is divided.total
        return Divisor(divided.absolute, None if plain else make_map(self.module, [divided.divisor], self.numbers, divided.total))

    def softmax(self, weights: Expression) -> Softmax:
        found = read_softmax(weights, self.keys)
        self.most, self.total = found.most, found.total
        return found

    def classify(self, out: Sequence[Loops], scores: Expression, v: Expression) -> tuple[list[Loop], list[Loop]]:
        """The results' loops that the scores are computed for, and those that only v and the results have."""
        loops, of_scores, of_v = [loop for own in out for loop in own], scores.moves_with(), v.moves_with()
        if any(loop not in of_scores and loop not in of_v for loop in loops) or (of_scores | of_v) - {*loops, *self.keys}:
            raise NotUnderstood
        return [loop for loop in loops if loop in of_scores], [loop for loop in loops if loop not in of_scores]

    def statistics(self, product: Expression, softmax: Softmax | None) -> tuple[Access | None, Access | None]:
        """Where the results go that have a number a row; NotUnderstood unless those are the logarithm of the row's sum of exponentials, or what is made of
        it, or that below the largest score, and that score."""
        if not self.of_rows:
            return None, None
        if softmax is None or softmax.sink is not None or softmax.added or softmax.most is None or len(self.of_rows) > 2:
            raise NotUnderstood
        found = dict(self.statistic(i, product, softmax.safe) for i in range(len(self.of_rows)))
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
            readers = readers_of(scores, product)
            if len(readers) != 1:
                return scores, product, factor
            scaled, more = constant_factor(readers[0])
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

    def sides(
        self, banded: list[Loop] | None, shared: Sequence[Loop], tables: list[Access], of_scores: list[Access],
    ) -> tuple[Group, list[Loop], Group]:
        """Keys, the loops over queries, and these: such that tensors which are read for scores have one stride along them, too, if that can be."""
        others = self.accesses

        def found(of_scores: list[Access]) -> tuple[Group, list[Loop], Group]:
            self.accesses = [*others, *of_scores]
            keys = self.group(self.keys)  # of which tables of pages say nothing
            self.accesses += tables
            loops = banded or self.queries(shared)
            return keys, loops, self.group(loops)

        keys, loops, queries = found(of_scores)
        if (keys.flat and queries.flat) or any(not isinstance(size, int) for size in self.sizes):
            return keys, loops, queries
        keys, loops, queries = found([])
        self.accesses += of_scores
        return keys, loops, queries

    def group(self, loops: Sequence[Loop]) -> Group:
        dims = [self.numbers[loop] for loop in loops]
        runs = merge(dims, self.sizes, self.accesses)
        return Group(tuple(dims), tuple(self.sizes[d] for d in dims), tuple(map(tuple, runs)))


def _is_softmax(weights: Expression) -> bool:
    """Whether weights may be a softmax, and what is made of one: exponentials over their sum."""
    return holds(weights, MAXIMUM) or any(e.name == "arith.divf" and unrounded(e.operands[0]).name == "math.exp" and holds(e.operands[1], SUM)
                                          for e in weights.walk(lambda e: e.name == CONTRACTION))
