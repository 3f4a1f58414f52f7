"""Reads a kernel function as a part of attention's backward, by what its structured operations compute, as ``parser`` reads attention."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from inferno.mlir import func, ir
from inferno.passes.programs import returned
from inferno.passes.shapes import row_major
from inferno.schedule.analysis.accesses import Access, destination_index, has_known_sizes
from inferno.schedule.analysis.expression_maps import access_of, make_map
from inferno.schedule.analysis.expression_tracer import LoopNumbers, NotUnderstood
from inferno.schedule.analysis.expressions import CONTRACTION, INDEX, MAXIMUM, READ, SUM, Expression, Loop, Loops, place_of
from inferno.schedule.attention.bands import Band, find_band
from inferno.schedule.attention.dropout import find_factor, read_dropout
from inferno.schedule.attention.gradient_kernel import AttentionGradient, Sum
from inferno.schedule.attention.listed_blocks import Blocks, Peeled, make_blocks, peel_blocks, queries_of
from inferno.schedule.attention.parser import Parser, parse_by
from inferno.schedule.attention.score_expressions import holds, only, plain, unrounded, unscaled
from inferno.schedule.matmul.contraction import Destination, Group


def parse_attention_gradient(kernel: func.FuncOp) -> AttentionGradient | None:
    """What ``kernel`` computes, or None if it is anything else, or has sizes that vary."""
    return parse_by(_Parser, kernel) if has_known_sizes(kernel) else None


@dataclass(frozen=True)
class _Weights:
    """What the weights of one or two sums are made of: ``found``, the gradients of scores and the exponentials ``power`` of ``scores`` below ``base``.

    ``totals`` is the number a row that ``base`` reads, ``product`` the one of queries and keys, ``other`` the one of the result's gradients and values;
    ``peeled`` is the table of a mask of blocks, ``dropped`` what dropout multiplies the second sum's weights by.
    """

    found: list[Expression]
    power: Expression
    scores: Expression
    base: Expression
    peeled: Peeled | None
    totals: Expression
    product: Expression
    other: Expression
    dropped: Expression | None


@dataclass(frozen=True)
class _Seen:
    """``scores`` inside of ``band`` or of ``blocks``, computed of ``inner``, which is the product times ``scale``; ``queries`` are the loops that these are in
    terms of, if there are some."""

    scores: Expression
    inner: Expression
    scale: float
    band: Band | None
    queries: list[Loop] | None
    blocks: Blocks | None


class _Parser(Parser):
    """One try, which ends in ``NotUnderstood`` where the kernel is anything else."""

    pages = writes = False

    def parse(self) -> AttentionGradient:
        self.returned = returned(self.kernel)
        if len(self.returned) < 3:
            return self.part(range(len(self.returned)))
        last = 2
        if len(self.returned) > 4:
            raise NotUnderstood
        keys = self.part(range(last))
        if keys.blocks is not None:
            raise NotUnderstood
        weight, loops = self.weight, list(self.numbers)
        queries = self.part([last])
        names = self.names(self.weight, weight)
        if not keys.transposed or queries.transposed or queries.outer.dims:
            raise NotUnderstood
        own = list(self.numbers)
        for mine, theirs in (((queries.batch, queries.rows), (keys.batch, keys.outer, keys.columns)), ((queries.columns,), (keys.rows,))):
            if [names.get(own[d]) for group in mine for d in group.dims] != [loops[d] for group in theirs for d in group.dims]:
                raise NotUnderstood
        if len(self.returned) == last + 1:
            return replace(keys, queries=queries)
        (scores,), (out,) = self.elements([last + 1])
        names = self.names(scores, weight)
        order = [loops[d] for group in (keys.batch, keys.outer, keys.columns, keys.rows) for d in group.dims]
        if [names.get(loop) for dimension in out for loop in dimension] != order:
            raise NotUnderstood
        return replace(keys, queries=queries, of_scores=len(self.kernel.type.inputs) - 1)

    def names(self, expression: Expression, weight: Expression) -> dict[Loop, Loop]:
        """The loops of ``weight`` by those of an ``expression`` that is the same along loops of its own; NotUnderstood for any other."""
        names: dict[Loop, Loop] = {}
        for mine, theirs in zip((e for e in expression.walk() if e.name == READ), (e for e in weight.walk() if e.name == READ)):
            steps = {step: loop for loop, step in theirs.strides}
            names |= {loop: steps[step] for loop, step in mine.strides if step in steps}
        if self.tracer.renamed(expression, names) is not weight:
            raise NotUnderstood
        return names

    def part(self, which: Sequence[int]) -> AttentionGradient:
        """What the results of these numbers are."""
        results, outs = self.elements(which)
        sums, columns = self.sums(results)
        weights, factors = zip(*(sorted(s.operands, key=lambda e: not holds(e, CONTRACTION)) for s in sums))
        softmax = self.read_weights(weights)
        found, power, product, other = softmax.found, softmax.power, softmax.product, softmax.other
        kept, dropped = self.kept(found[0], other, softmax.dropped, len(found) == 2)
        stationary, streamed, scale_of_scores = self.operands_of((product, other), columns)
        of_weights, ends = self.number_loops(softmax, columns, outs)
        for one, end, value, weight, inner in zip(factors, ends, streamed, weights, (product, other)):
            self.same(one, end, value, inner.loops)
            if weight.name != "arith.extf" or weight.operands[0].type != value.operands[0].type:
                raise NotUnderstood
        self.weight = weights[0].operands[0]
        keys, transposed, of_keys = self.keys_of(product, softmax.totals, of_weights, columns, stationary, streamed)
        shared = [loop for loop in (*of_weights, *columns) if loop not in of_keys[0].moves_with() | of_keys[1].moves_with()]
        seen = self.seen_scores(softmax, keys, shared, of_weights, columns)
        score = None if seen.scores is seen.inner else make_map(self.module, [seen.scores], self.numbers, seen.inner)
        gradient = make_map(self.module, [found[0]], self.numbers, power, kept)
        dropout = None if dropped is None else read_dropout(dropped, keys, self.numbers)
        made = [self.stored(*each) for each in zip(which, results, sums, outs)]
        a, b = (tuple(map(self.operand, pair)) for pair in (stationary, streamed))
        base, totals = softmax.base, softmax.totals
        of_totals = None if base is totals else make_map(self.module, [base], self.numbers, totals)
        totals = Access(totals.argument, totals.type, self.strides(totals), totals.offset, totals.shape)
        of_whole = None if seen.blocks is None else seen.blocks.whole.score
        maps = [m for m in (score, of_whole, gradient, *(m.epilogue for m in made)) if m is not None]
        self.accesses = [
            *(x for o in (*a, *b) for x in o.reads), totals, *(x for m in maps for x in m.sources if x is not None), *(m.destination.access for m in made),
            *([] if dropout is None else dropout.places), *([] if seen.blocks is None else [seen.blocks.table]),
        ]
        rows, inner_columns = (list(keys), seen.queries or self.longest(columns)) if transposed else (seen.queries or self.queries(shared), list(keys))
        batch, outer = [r for r in of_weights if r not in rows], [c for c in columns if c not in inner_columns]
        groups = [self.group(g) for g in (batch, rows, inner_columns, outer, product.loops, other.loops)]
        if any(not g.flat for i, g in enumerate(groups) if i not in (0, 3)):
            raise NotUnderstood
        if dropout is not None and not dropout.has(groups[2 if transposed else 1].dims, self.sizes):
            raise NotUnderstood
        made = [replace(m, columns=self.group(end)) for m, end in zip(made, ends)]
        if any(not m.columns.flat for m in made):
            raise NotUnderstood
        return AttentionGradient(
            self.sizes, *groups, a, b, seen.scale * scale_of_scores, score, seen.band, seen.blocks, totals, of_totals, gradient, dropout, transposed,
            tuple(made), None, None, self.module,
        )

    def sums(self, results: list[Expression]) -> tuple[list[Expression], Loops]:
        """The contraction that each of the ``results`` is made of, and the loops that they sum over: the columns of one are renamed to be those of all."""
        sums = [only([r], CONTRACTION) for r in results]
        if any(holds(r, MAXIMUM, SUM) for r in results):
            raise NotUnderstood
        columns = sums[0].loops
        for i, own in enumerate(sums[1:], 1):
            if [c.size for c in own.loops] != [c.size for c in columns]:
                raise NotUnderstood
            results[i] = self.tracer.renamed(results[i], dict(zip(own.loops, columns)))
        return [only([r], CONTRACTION) for r in results], columns

    def number_loops(self, softmax: _Weights, columns: Loops, outs: Sequence[Sequence[Loops]]) -> tuple[list[Loop], list[list[Loop]]]:
        """Give all loops numbers; the results' loops that weights move with, and of each result the others."""
        gradient, product, other = softmax.found[0], softmax.product, softmax.other
        of_weights = [loop for own in outs[0] for loop in own if loop in gradient.moves_with()]
        ends = [[loop for own in out for loop in own if loop not in of_weights] for out in outs]
        loops = list(dict.fromkeys([*of_weights, *columns, *product.loops, *other.loops, *(loop for end in ends for loop in end)]))
        self.numbers = LoopNumbers((loop, n) for n, loop in enumerate(loops))
        if len({*of_weights, *columns, *product.loops, *other.loops}) != len(of_weights) + len(columns) + len(product.loops) + len(other.loops):
            raise NotUnderstood
        of_table = set() if softmax.peeled is None else {loop for loop, _ in softmax.peeled.read.strides if loop not in loops}
        if gradient.moves_with() - of_table != {*of_weights, *columns} or any({*e} & {*product.loops, *other.loops} for e in ends):
            raise NotUnderstood
        self.sizes = tuple(loop.size for loop in loops)
        return of_weights, ends

    def seen_scores(self, softmax: _Weights, keys: Loops, shared: Sequence[Loop], of_weights: Sequence[Loop], columns: Loops) -> _Seen:
        """The scores where they are seen, which a band or a table of blocks says."""
        peeled, product = softmax.peeled, softmax.product
        scores, band, blocks = self.tracer.rebuild(softmax.scores, plain), None, None
        if peeled is None:
            scores, band, queries = self.find_band(scores, keys, shared)
        else:
            queries = queries_of(peeled, [*of_weights, *columns], shared)
        scores, inner, scale = self.scale(scores, product)
        if peeled is not None:
            others = [loop for loop in (*of_weights, *columns) if loop not in (queries or ()) and loop not in keys]
            whole = self.whole(peeled, scores, inner, scale, product)
            blocks = None if queries is None else make_blocks(peeled, queries, keys, others, lambda e: access_of(e, self.numbers), whole)
            if blocks is None or not _are_whole_tables(blocks, queries) or any(blocks.table.strides[self.numbers[c]] for c in columns if c in others):
                raise NotUnderstood
        return _Seen(scores, inner, scale, band, queries, blocks)

    def read_weights(self, weights: Sequence[Expression]) -> _Weights:
        """What the ``weights`` of one or two sums are made of: the gradients of scores, which come first, and exponentials of scores below a number a row."""
        found, dropped = [unrounded(w) for w in weights], None
        if len(found) == 2:
            found[1], dropped = find_factor(found[1])
        power = only(found, "math.exp")
        if len(found) > 2 or (len(found) == 2 and (power not in found or found[0] is power)):
            raise NotUnderstood
        difference = power.operands[0]
        if difference.name != "arith.subf" or not isinstance(power.type, ir.F32Type):
            raise NotUnderstood
        scores, base = difference.operands
        scores, peeled = peel_blocks(self.tracer, scores)
        totals = only([base], READ)
        product = only([scores], CONTRACTION)
        others = {e for e in found[0].walk(lambda e: e is power or e.name == CONTRACTION) if e.name == CONTRACTION}
        if len(others) != 1 or holds(base, CONTRACTION, MAXIMUM, SUM, INDEX) or not isinstance(totals.type, ir.F32Type):
            raise NotUnderstood
        return _Weights(found, power, scores, base, peeled, totals, product, others.pop(), dropped)

    def operands_of(self, products: Sequence[Expression], columns: Sequence[Loop]) -> tuple[list[Expression], list[Expression], float]:
        """Of two products the operands that do not move with the columns, those that do, and the number that the first one is multiplied by."""
        stationary, streamed, factor = [], [], []
        for one in products:
            a, b = sorted(one.operands, key=lambda e: bool(e.moves_with() & set(columns)))
            (a, of_a), (b, of_b) = unscaled(a), unscaled(b)
            if holds(a, CONTRACTION) or holds(b, CONTRACTION) or a.moves_with() & set(columns) or not b.moves_with() & set(columns):
                raise NotUnderstood
            stationary.append(a)
            streamed.append(b)
            factor.append(of_a * of_b)
        if factor[1] != 1:
            raise NotUnderstood
        return stationary, streamed, factor[0]

    def keys_of(
        self, product: Expression, totals: Expression, of_weights: Sequence[Loop], columns: Sequence[Loop], stationary: Sequence[Expression],
        streamed: Sequence[Expression],
    ) -> tuple[tuple[Loop, ...], bool, list[Expression]]:
        """The loops over keys, whether these are rows rather than columns, and the operands that move with them.  Queries are what totals are of."""
        everything = product.moves_with()
        keys = tuple(loop for loop in (*of_weights, *columns) if loop in everything and loop not in totals.moves_with())
        transposed = not set(keys) <= set(columns)
        if transposed and set(keys) & set(columns):
            raise NotUnderstood
        of_keys = [e for pair in (stationary, streamed) for e in pair if e.moves_with() & set(keys)]
        of_others = [e for pair in (stationary, streamed) for e in pair if not e.moves_with() & set(keys)]
        if len(of_keys) != 2 or len(of_others) != 2 or (set(of_keys) != set(stationary) if transposed else set(of_keys) != set(streamed)):
            raise NotUnderstood
        return keys, transposed, of_keys

    def kept(self, gradient: Expression, other: Expression, factor: Expression | None, both: bool) -> tuple[Expression, Expression | None]:
        """The gradients of weights as they are in ``gradient``, and by what the ``other`` product is multiplied for that, which is what the weights of a
        second result are."""
        readers = [e for e in gradient.walk(lambda e: e is other) if other in e.operands]
        found = [(e, own) for e in readers for value, own in [find_factor(e)] if own is not None and value is other]
        if not found:
            if factor is not None:
                raise NotUnderstood
            return other, None
        if len(readers) != 1 or (both and found[0][1] is not factor):
            raise NotUnderstood
        return found[0]

    def find_band(self, scores: Expression, keys: Loops, shared: Sequence[Loop]) -> tuple[Expression, Band | None, list[Loop]]:
        """As for scores from which a query's largest one is not subtracted: that is the same for all keys."""
        least = scores.operands[1] if scores.name == "arith.subf" else None
        if least is None or holds(least, CONTRACTION) or least.moves_with() & set(keys):
            return find_band(self.tracer, scores, keys, shared)
        inside, band, queries = find_band(self.tracer, scores.operands[0], keys, shared)
        return self.tracer.make("arith.subf", scores.type, [inside, least]), band, queries

    def elements(self, which: Sequence[int]) -> tuple[list[Expression], list[list[Loops]]]:
        """An element of each of these results, and the loops of its dimensions."""
        first = len(self.kernel.type.inputs) - len(self.returned)
        returned = [self.returned[i] for i in which]
        if any(destination_index(self.kernel, v) != first + i for i, v in zip(which, returned)):
            raise NotUnderstood
        if len({tuple(v.type.shape)[:-1] for v in returned}) != 1:
            raise NotUnderstood
        outs = [[self.tracer.loops(("out", which[0], d), size) for d, size in enumerate(v.type.shape)] for v in returned]
        return [self.tracer.element(v, list(map(place_of, out))) for v, out in zip(returned, outs)], outs

    def same(self, factor: Expression, end: Sequence[Loop], value: Expression, inner: Loops) -> None:
        """NotUnderstood unless a factor of a result is the tensor of a product, along the result's loops for those that the product sums over."""
        reads = [e.operands[0] if e.name == "arith.extf" else e for e in (factor, value)]
        if any(e.name != READ for e in reads) or [loop.size for loop in end] != [loop.size for loop in inner]:
            raise NotUnderstood
        other = self.tracer.renamed(reads[1], dict(zip(inner, end)))
        if (other.argument, other.strides, other.offset) != (reads[0].argument, reads[0].strides, reads[0].offset):
            raise NotUnderstood

    def strides(self, read: Expression) -> tuple[int, ...]:
        strides = [0] * len(self.numbers)
        for loop, stride in read.strides:
            strides[self.numbers[loop]] = stride
        return tuple(strides)

    def stored(self, number: int, result: Expression, sum_: Expression, out: Sequence[Loops]) -> Sum:
        type_ = self.returned[number].type
        strides = [0] * len(self.numbers)
        for own, step in zip(out, row_major(list(type_.shape))):
            for i, loop in enumerate(own):
                strides[self.numbers[loop]] = step * prod(inside.size for inside in own[i + 1:])
        access = Access(len(self.kernel.type.inputs) - len(self.returned) + number, type_.element_type, tuple(strides), 0, tuple(type_.shape))
        epilogue = None if unrounded(result) is sum_ else make_map(self.module, [result], self.numbers, sum_)
        return Sum(Group((), (), ()), epilogue, Destination(None if epilogue is None else 0, access))

    def longest(self, columns: Loops) -> list[Loop]:
        """All of them if they are one loop, else the last ones that are."""
        for first in range(len(columns)):
            if self.group(columns[first:]).flat:
                return list(columns[first:])
        return list(columns[-1:])


def _are_whole_tables(blocks: Blocks, queries: Sequence[Loop]) -> bool:
    """Whether at a position of the batch there is a table, rows of keys' blocks one behind the other."""
    count = blocks.count * (ceil(prod(loop.size for loop in queries) / blocks.queries) if blocks.queries else 1)
    return blocks.step in (0, blocks.count) and all(x % count == 0 for x in (blocks.table.offset, prod(blocks.table.shape), *blocks.table.strides))
