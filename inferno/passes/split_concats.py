"""Multiply the pieces of a concatenation separately where rows of them are taken: ``F.linear(cat(x[s], x[d]), w)`` is a sum of products of ``x``'s rows.

What a graph's edges send is a layer of both of their nodes side by side.  Of each piece alone, the product is made of the rows that there are
(``sink-gathers``), and of each edge two of its results are added up.
"""

from itertools import accumulate
from math import prod

from inferno.element_sizes import element_bytes
from inferno.mlir import arith, clone_onto, dim_of, ir, owner, tensor, users, walk
from inferno.passes.contraction import is_convolution, is_sum_of_products, zero_start
from inferno.passes.generics import PARALLEL, build, inputs, loops_alone
from inferno.passes.parts import extract
from inferno.passes.sink_gathers import GAIN, LAUNCH, operations_of_a_byte
from inferno.passes.takings import Taking, taking


def split_concats(module: ir.Module) -> None:
    """Rewrite such products, where less is moved and computed so."""
    for concat in walk(module.operation, "tensor.concat"):
        product = _product(concat)
        if product is not None and _pays(concat, product):
            _rewrite(concat, product)


def _product(concat: ir.Operation) -> ir.Operation | None:
    """The one reader of a concatenation, if it is a product that sums along the pieces, in float32, and all sizes are known."""
    found = list(users(concat.results[0]))
    if len(found) != 1 or not is_sum_of_products(found[0]) or is_convolution(found[0]) or zero_start(found[0]) is None:
        return None
    op = found[0]
    types = [v.type for v in (*op.operands, *concat.operands)]
    if not all(isinstance(t, ir.RankedTensorType) and t.has_static_shape for t in types) or not isinstance(op.results[0].type.element_type, ir.F32Type):
        return None
    walked, joined = loops_alone(op), concat.results[0]
    if sum(v == joined for v in inputs(op)) != 1:
        return None
    loop = walked[inputs(op).index(joined)][dim_of(concat)]
    once = all(sum(e == loop for e in w) == 1 and None not in w for w in walked[:2])
    return op if loop is not None and loop not in walked[2] and once else None


def _taken(value: ir.Value) -> Taking | None:
    """What takes the rows that a piece has, for nobody else."""
    made = owner(value)
    gathers = walk(made, "tensor.extract") if made is not None and len(set(users(value))) == 1 else []
    found = taking(gathers[0]) if len(gathers) == 1 else None
    return found if found is not None and found.op == made else None


def _pays(concat: ir.Operation, product: ir.Operation) -> bool:
    """Whether less is moved and computed: of each piece that is taken the product of the rows that there are is written, and read for each row that is taken.
    All others have a product of their own, which is written and read."""
    result, along = product.results[0].type, dim_of(concat)
    before = after = 0
    found = []
    for piece in concat.operands:
        made, bytes_ = _taken(piece), prod(piece.type.shape) * element_bytes(piece.type.element_type)
        products = 2 * prod(result.shape) * piece.type.shape[along] / operations_of_a_byte(piece.type.element_type)
        before += 2 * bytes_ + products
        written = prod(result.shape) * element_bytes(result.element_type)
        if made is None or made.axis <= along < made.axis + len(made.counts):
            after += bytes_ + products + 2 * written
        else:
            share = made.source.type.shape[made.axis] / prod(made.counts)
            after += LAUNCH + share * (bytes_ + products + written) + written
            found.append(made)
    return bool(found) and before > GAIN * after


def _rewrite(concat: ir.Operation, product: ir.Operation) -> None:
    """Let the product of each piece, with its part of the other factor, be a term of the sum."""
    joined, along = concat.results[0], dim_of(concat)
    (place,) = (i for i, v in enumerate(inputs(product)) if v == joined)
    other, walked = inputs(product)[1 - place], loops_alone(product)
    summed = walked[1 - place].index(walked[place][along])
    sizes = [v.type.shape[along] for v in concat.operands]
    with ir.InsertionPoint(product), product.location:
        terms = []
        for piece, first, count in zip(concat.operands, accumulate([0, *sizes]), sizes):
            part = extract(other, [(first, count, 1) if d == summed else (0, n, 1) for d, n in enumerate(other.type.shape)])
            terms.append(clone_onto(product, {joined: piece, other: part}).results[0])
        type_ = product.results[0].type
        identity = ir.AffineMap.get_identity(type_.rank, product.context)
        empty = tensor.EmptyOp(list(type_.shape), type_.element_type).result

        def add(block: list[ir.Value]) -> list[ir.Value]:
            total = block[0]
            for term in block[1:len(terms)]:
                total = arith.addf(total, term)
            return [total]

        total = build(terms, [empty], [identity] * (len(terms) + 1), [PARALLEL] * type_.rank, add, product.location).results[0]
    product.results[0].replace_all_uses_with(total)
    product.erase()
    concat.erase()
