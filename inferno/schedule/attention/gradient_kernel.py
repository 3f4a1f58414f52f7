"""What a kernel computes that is a part of attention's backward: sums of products whose weights are made of two products of rows and columns."""

from dataclasses import dataclass, field

from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access
from inferno.schedule.attention.bands import Band
from inferno.schedule.attention.dropout import Dropout
from inferno.schedule.attention.kernel import sources
from inferno.schedule.attention.listed_blocks import Blocks
from inferno.schedule.matmul.contraction import Destination, Group, Map, Operand
from inferno.symbolic import Int


@dataclass(frozen=True)
class Sum:
    """A result: ``epilogue(sum over columns of weight[row, column] * streamed[column, n])`` for n over ``columns``, rounded to the destination.
    ``epilogue`` is None where the sum is stored as it is."""

    columns: Group
    epilogue: Map | None
    destination: Destination


@dataclass(frozen=True)
class AttentionGradient:
    """With b over the batch, r over rows, c over columns (those of ``outer`` too), d over the depth and e over the width::

        x[b, r, c] = score(scale * sum over d of stationary0[b, r, d] * streamed0[b, c, d])     -inf where outside of the band
        y[b, r, c] = sum over e of stationary1[b, r, e] * streamed1[b, c, e]
        p[b, r, c] = exp(x - totals)
        results0[b, r, d] = sum over c of rounded(gradient(p, y)) * streamed0[b, c, d]
        results1[b, r, e] = sum over c of rounded(p) * streamed1[b, c, e]       if there are two results

    The gradient of queries has them as rows, keys and values as columns, and one result; that of keys and values has them as rows, and
    queries and the result's gradients as columns (``transposed``).  ``outer``: of all columns, those loops that are walked one position at a
    time; queries of heads that share their keys.
    All accesses have one stride for each loop of ``sizes``.  Products are summed, and everything between them computed, in float32.
    ``totals`` is the logarithm of the sum of a query's exponentials, or what ``of_totals``, whose ``accumulators`` it is, makes that of.
    ``gradient``: its ``accumulators`` are p, its ``others`` y.  ``dropout``: by what y is multiplied there, and p in the second result.
    ``band`` is in terms of queries and keys, and so are ``blocks``, which are those of all positions of ``outer``; with these there is no band.
    ``queries``, of gradients of keys and values: those of queries, the last result, which the same gradients of scores are weights of.  Its batch and
    rows go over queries in the same order as ``batch``, ``outer`` and ``columns``, its columns are ``rows``.
    ``of_scores``: with these, the number of the result that the rounded gradients of scores are, [``batch``, ``outer``, ``columns``, ``rows``] without gaps,
    where something else reads them, such as a bias's gradient.
    """

    sizes: tuple[Int, ...]
    batch: Group
    rows: Group
    columns: Group
    outer: Group
    depth: Group
    width: Group
    stationary: tuple[Operand, Operand]
    streamed: tuple[Operand, Operand]
    scale: float
    score: Map | None
    band: Band | None
    blocks: Blocks | None
    totals: Access
    of_totals: Map | None
    gradient: Map
    dropout: Dropout | None
    transposed: bool
    results: tuple[Sum, ...]
    queries: "AttentionGradient | None"
    of_scores: int | None
    module: ir.Module = field(repr=False)  # a copy of the kernel, and what is made of it: operations are in there

    @property
    def seen(self) -> Band:
        """The columns that a row sees, by their numbers."""
        band = self.band or Band(None, None)
        if not self.transposed:
            return band
        return Band(*(None if x is None else -x for x in (band.high, band.low)))

    @property
    def extras(self) -> tuple[Access, ...]:
        """What is read beside the factors, and the epilogues' own."""
        maps = (self.score, None if self.blocks is None else self.blocks.whole.score, self.gradient, *(r.epilogue for r in self.results))
        seed = () if self.dropout is None else (self.dropout.seed,)
        return tuple(dict.fromkeys((self.totals, *seed, *(s for m in maps for s in sources(m)))))
