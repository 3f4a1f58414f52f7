"""Make one reduction of a reduction of a reduction: ``x.mean(3).mean(2)``, ``x.amax(-1).amax(-1).amax(-1)``.

What one loop has been reduced to is reduced along another one by the same operation, with a constant factor in between at most, as a mean's: all of both loops
are reduced at once, and multiplied behind.  A number that the inner one was rounded to in 16 bits is not rounded then.
"""

from math import prod

from inferno.mlir import clone_onto, ir, owner, tensor, users, walk
from inferno.passes.contraction import is_sum_of_products, parse_fused
from inferno.passes.fuse_elementwise import fuse_elementwise
from inferno.passes.generics import (
    PARALLEL, REDUCTION, body, build, clone_body, dims, inputs, is_elementwise, is_reduction, kinds, knows_sizes, loop_sizes, maps,
    only_user, outputs, substitute, use_count, yielded,
)
from inferno.passes.programs import VIEWS
from inferno.passes.widen_arithmetic import ROUNDS

_COMBINERS = ("arith.addf", "arith.addi", "arith.maximumf", "arith.minimumf", "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui")
_LINEAR = "arith.addf"
# Results, of fewer of which another launch puts the parts of rows together anyway, as the outer reduction does; and terms of each, of which a block has as many
# for itself: more of them are more blocks' by two launches.
_LEAST, _LONGEST = 128, 1 << 14


def fold_reductions(module: ir.Module) -> None:
    """Rewrite such reductions of known sizes, the first ones first."""
    changed = False
    for op in walk(module.operation, "linalg.generic"):
        inner = owner(inputs(op)[0]) if len(inputs(op)) == 1 else None
        if _reduces(op) and inner is not None and _reduces(inner) and (factors := _factors(inner, op)) is not None:
            _fold(inner, op, factors)
            changed = True
    if changed:
        fuse_elementwise(module)


def _reduces(op: ir.Operation) -> bool:
    """Whether an operation is a reduction by one of the combiners of what is no product for tensor cores."""
    if not is_reduction(op) or len(op.results) != 1 or not knows_sizes(op) or not combiner_of(op):
        return False
    start, fused = owner(outputs(op)[0]), parse_fused(op)
    plain = all(dims(m) is not None for m in maps(op)) and not walk(op, "linalg.index", "tensor.extract", "scf.if")
    product = len(inputs(op)) > 1 and (is_sum_of_products(op) or (fused is not None and fused.lhs != fused.rhs))
    return plain and not product and start is not None and start.name == "linalg.fill" and all(isinstance(n, int) for n in loop_sizes(op))


def combiner_of(op: ir.Operation) -> str:
    """What an operation combines its terms by; "" for any other."""
    last, total = owner(yielded(op)[0]), list(body(op).arguments)[-1]
    known = last is not None and last.name in _COMBINERS and total in list(last.operands) and use_count(total) == 1
    return last.name if known else ""


def _factors(inner: ir.Operation, outer: ir.Operation) -> list[ir.Operation] | None:
    """What the outer reduction does with what the inner one gives it, before it combines that: products with and quotients by constants, the first one
    first; None where the two cannot be one."""
    name, result, read = combiner_of(outer), inner.results[0], dims(maps(outer)[0])
    terms = prod(n for op in (inner, outer) for n, k in zip(loop_sizes(op), kinds(op)) if k == REDUCTION)
    if name != combiner_of(inner) or only_user(result) is None or len(read) != len(kinds(outer)):
        return None
    own = all(_is_its_own(v, inner) for v in inputs(inner))
    if result.type.element_type != outer.results[0].type.element_type or (own and (terms > _LONGEST or prod(outer.results[0].type.shape) < _LEAST)):
        return None
    if _number(inner) != _number(outer) or not (own or all(_reduces_alike(v, inner, outer) for v in inputs(inner))):
        return None
    argument, total = list(body(outer).arguments)
    last = owner(yielded(outer)[0])
    value = next(v for v in last.operands if v != total)
    found: list[ir.Operation] = []
    while value != argument:
        made = owner(value)
        if made is None or use_count(value) != 1:
            return None
        if made.name == "arith.extf" and (narrow := owner(made.operands[0])) is not None and narrow.name == "arith.truncf" and ROUNDS not in narrow.attributes:
            if narrow.operands[0].type != made.results[0].type:
                return None
            value = narrow.operands[0]
        elif name == _LINEAR and made.name in ("arith.mulf", "arith.divf") and _is_constant(made.operands[1]):
            found.insert(0, made)
            value = made.operands[0]
        else:
            return None
    return found


def _is_its_own(value: ir.Value, reader: ir.Operation) -> bool:
    """Whether a reduction alone reduces a tensor, which is made of arguments of the program by maps: a kernel goes over rows for all reductions of them, and
    for what they are made of."""
    op = owner(value)
    if any(u != reader and is_reduction(u) for u in users(value)):
        return False
    if op is None or not isinstance(value.type, ir.RankedTensorType):
        return True
    if op.name in (*VIEWS, "tensor.extract_slice"):
        return _is_its_own(op.operands[0], reader)
    return is_elementwise(op) and all(_is_its_own(v, reader) for v in inputs(op))


def _reduces_alike(value: ir.Value, inner: ir.Operation, outer: ir.Operation) -> bool:
    """Whether whoever else reduces a tensor does so along the dimensions that both reductions of it are along together, as a softmax's sum behind its maximum;
    or does so in two steps, too."""
    if _reduced(value, inner) is None:
        return False
    both = _reduced_by(value, inner, outer)
    for user in users(value):
        if user != inner and is_reduction(user) and _reduced(value, user) != both:
            further = only_user(user.results[0]) if _reduces(user) else None
            if further is None or not _reduces(further) or _reduced(value, user) is None or _reduced_by(value, user, further) != both:
                return False
    return True


def _reduced_by(value: ir.Value, inner: ir.Operation, outer: ir.Operation) -> set[int]:
    """The dimensions of a tensor that two reductions, one of what the other gives, reduce together."""
    left = dict(zip(dims(maps(inner)[-1]), (kinds(outer)[loop] for loop in dims(maps(outer)[0]))))
    return {n for n, loop in enumerate(dims(_map_of(value, inner))) if left.get(loop, REDUCTION) == REDUCTION}


def _map_of(value: ir.Value, reader: ir.Operation) -> ir.AffineMap:
    """How an operation reads a tensor."""
    return next(m for v, m in zip(inputs(reader), maps(reader)) if v == value)


def _reduced(value: ir.Value, reader: ir.Operation) -> set[int] | None:
    """The dimensions of a tensor that an operation reduces; None where it does not read it along its loops, or more than once."""
    read = dims(_map_of(value, reader)) if inputs(reader).count(value) == 1 else None
    return None if read is None else {n for n, loop in enumerate(read) if kinds(reader)[loop] == REDUCTION}


def _is_constant(value: ir.Value) -> bool:
    """Whether it is a number, maybe in another precision."""
    made = owner(value)
    return made is not None and (made.name == "arith.constant" or (made.name in ("arith.truncf", "arith.extf") and _is_constant(made.operands[0])))


def _same_constant(value: ir.Value) -> ir.Value:
    """The same number, at the insertion point."""
    made = owner(value)
    return clone_onto(made, {v: _same_constant(v) for v in made.operands}).results[0]


def _number(op: ir.Operation) -> ir.Attribute | None:
    """The constant that a reduction starts from."""
    made = owner(owner(outputs(op)[0]).operands[0])
    return made.attributes["value"] if made is not None and made.name == "arith.constant" else None


def _fold(inner: ir.Operation, outer: ir.Operation, factors: list[ir.Operation]) -> None:
    count = len(kinds(outer))
    place, order, reduced = dims(maps(outer)[0]), dims(maps(inner)[-1]), [d for d, k in enumerate(kinds(inner)) if k == REDUCTION]
    loops: list[ir.AffineExpr] = [ir.AffineExpr.get_dim(0, outer.context)] * len(kinds(inner))
    for d in range(len(kinds(inner))):
        at = count + reduced.index(d) if d in reduced else place[order.index(d)]
        loops[d] = ir.AffineExpr.get_dim(at, outer.context)
    every = count + len(reduced)
    same = [ir.AffineExpr.get_dim(d, outer.context) for d in range(count)]
    indexing = [*(substitute(m, loops, every) for m in maps(inner)[:-1]), substitute(maps(outer)[-1], same, every)]
    with ir.InsertionPoint(outer), outer.location:
        made = build(
            inputs(inner), outputs(outer), indexing, [*kinds(outer), *[REDUCTION] * len(reduced)],
            lambda arguments: clone_body(body(inner), arguments), outer.location)
        result = made.results[0]
        if factors:
            type_ = result.type
            identity = ir.AffineMap.get_identity(type_.rank, outer.context)

            def fill(arguments: list[ir.Value]) -> list[ir.Value]:
                value = arguments[0]
                for op in factors:
                    value = clone_onto(op, {op.operands[0]: value, op.operands[1]: _same_constant(op.operands[1])}).results[0]
                return [value]

            empty = tensor.EmptyOp(list(type_.shape), type_.element_type).result
            result = build([result], [empty], [identity] * 2, [PARALLEL] * type_.rank, fill, outer.location).results[0]
    outer.results[0].replace_all_uses_with(result)
    outer.erase()
    inner.erase()
