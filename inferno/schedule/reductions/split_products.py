"""Present a sum of products of which each factor is read once (``torch.dot``, or a batch of them) as a reduction. Fusion treats it, and what ends it, such as a
rounding to 16 bits, as any contraction; generators read it as the sum and a map of it."""

from math import prod

from inferno.mlir import ir, users
from inferno.passes.contraction import parse_fused
from inferno.passes.fuse_elementwise import fuse
from inferno.passes.generics import REDUCTION, inputs, is_elementwise, is_reduction, kinds, loop_sizes, loops_of, maps
from inferno.passes.programs import operations_in
from inferno.passes.split_contractions import split_contraction
from inferno.symbolic import hint


# Results and terms of products of two tall matrices, which are few sums that tiles of results leave to a block or two: on an H200 the squares of 1M rows of 8
# took 1775 us in float32 by one block, 368 in bf16 by eight, 256K rows of 8 and 32 502, and take 32, 20 and 43 (torch's 114, 56 and 66).
RESULTS, TERMS = 256, 1 << 14


def split_products(module: ir.Module, vectors: bool = False) -> None:
    """Rewrite the kernel of a module of its own.  What factors are computed of goes into the sum; other sums, of squares for instance, stay.  ``vectors``:
    so is a product of a matrix and a vector, of which the matrix is read once, and one of two tall matrices."""
    kernel = module.body.operations[0]
    others = []
    for op in operations_in(kernel):
        fused = parse_fused(op) if is_reduction(op) and _reads_once(op, vectors) else None
        if fused is not None and fused.value is not None:
            split_contraction(fused)
        else:
            others.append(op)
    for maker in [o for o in operations_in(kernel) if o not in others and is_elementwise(o)]:
        reader = next((u for u in users(maker.results[0]) if is_reduction(u)), None)
        while reader is not None and maker.results[0] in inputs(reader):
            reader = _fuse(maker, reader)
        if not list(users(maker.results[0])):
            maker.erase()


def _reads_once(op: ir.Operation, vectors: bool) -> bool:
    """Whether what walks along terms walks along sums as well, or both factors do, whatever else there is, such as a factor for each term; with ``vectors`` one
    factor that does is enough."""
    every = {d for d, size in enumerate(loop_sizes(op) or ()) if size != 1}
    terms = {d for d in every if kinds(op)[d] == REDUCTION}
    walked = [set().union(*map(loops_of, m.results)) & every for m in maps(op)[:len(inputs(op))]]
    if vectors and every and is_tall(*(prod(hint(loop_sizes(op)[d]) for d in which) for which in (every - terms, terms))):
        return True
    return bool(every) and (all(w == every or not w & terms for w in walked) or walked.count(every) > (0 if vectors else 1))


def is_tall(results: int, terms: int) -> bool:
    """Whether few results have many terms."""
    return results <= RESULTS and terms >= TERMS


def _fuse(maker: ir.Operation, reader: ir.Operation) -> ir.Operation | None:
    """The reader that computes what it reads of a map; None where it cannot."""
    new = fuse(maker, reader, inputs(reader).index(maker.results[0]))
    if new is None:
        return None
    for old, result in zip(reader.results, new.results):
        old.replace_all_uses_with(result)
    reader.erase()
    return new.operation if isinstance(new, ir.OpView) else new
