"""What a kernel computes that is attention: two contractions with a softmax of whole rows between them (``parser.py`` reads it off the IR)."""

from dataclasses import dataclass, field
from functools import cached_property

from inferno.mlir import ir
from inferno.schedule.analysis.accesses import Access, merge
from inferno.schedule.analysis.pages import Pages
from inferno.schedule.attention.bands import Band
from inferno.schedule.attention.cache_writes import CacheWrite
from inferno.schedule.attention.divisors import Divisor
from inferno.schedule.attention.dropout import Dropout
from inferno.schedule.attention.listed_blocks import Blocks
from inferno.schedule.matmul.contraction import Destination, Group, Map, Operand
from inferno.symbolic import Int


@dataclass(frozen=True)
class AttentionKernel:
    """With b over the batch (sequences, heads), i over queries, j over keys, d over the depth and e over the width::

        s[b, i, j] = score(scale * sum over d of q[b, i, d] * k[b, j, d])       -inf where j is outside of band(i)
        o[b, i, e] = sum over j of weighting(weight(softmax over j of s)[b, i, j]) * v[b, j, e]
        destinations = epilogue(o)

    All accesses have one stride for each loop of ``sizes``: 0 where a tensor does not depend on it.  All but those for scores (``broken``) also have one
    for queries and for keys, each of which is a number then.  Loops of the batch may be any number: with
    grouped queries k and v have stride 0 along one of them.  Products are summed, and scores and softmax computed, in float32.

    ``q.element``, ``k.element`` and ``v.element`` are the types that are multiplied; the weights are rounded to ``weight`` (v's type).
    ``score`` is inlined for each point: its ``accumulators`` are the scaled product, its other ``sources`` are read, its ``indices`` are among the
    loops of batch, queries and keys, and its only result is float32; None where the scaled product is the score.  What it yields outside
    of the band does not matter, and it need not be computed there.
    ``weighting``: what values are multiplied by in the place of weights, which are its ``accumulators``, and in which it is linear; rows' sums do not see it.
    None where they are multiplied by weights.
    ``epilogue``: its ``accumulators`` are o as float32; None where o is stored as it is, or only rounded to the destination's type.
    ``reach``: the last key that is seen is at most this element (an integer) plus the number that the second has as its offset; its strides are 0 or
    more.  ``score`` says so too: keys beyond need not be looked at.
    ``blocks``: what is seen of blocks of queries and keys; there is no band then.
    ``softmax``: whether weights are that of scores; otherwise they are the scores themselves (sigmoid attention, retention), 0 outside of the band.
    ``divisor``: what these are then divided by in each row.
    ``sink``: a further score of each row, for which there is no value; a number where it is the same for all.
    ``added``: what is added to a row's sum of exponentials of what scores are below the largest one.
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
    softmax: bool
    divisor: Divisor | None
    sink: Access | float | None
    added: float
    safe: bool
    epilogue: Map | None
    destinations: tuple[Destination, ...]
    logarithms: Access | None
    largest: Access | None
    of_logarithm: Map | None
    dropout: Dropout | None
    weighting: Map | None
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

    @cached_property
    def broken(self) -> tuple[Access, ...]:
        """Of these the tensors that have several strides along queries or keys: of rows of an image, and of columns of it."""
        return tuple(x for x in self.score_extras if any(len(merge(g.dims, self.sizes, [x])) > 1 for g in (self.queries, self.keys)))

    @property
    def weighting_extras(self) -> tuple[Access, ...]:
        """Those that are read for what weights become."""
        return sources(self.weighting)

    @property
    def extras(self) -> tuple[Access, ...]:
        """Those that the epilogue reads."""
        return sources(self.epilogue)

    @property
    def sinks(self) -> tuple[Access, ...]:
        """The tensor of rows' further scores, if there is one."""
        return (self.sink,) if isinstance(self.sink, Access) else ()

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
