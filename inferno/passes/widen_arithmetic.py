"""Inside a kernel, bf16 and f16 are computed in f32: values are extended where they come in and rounded where they leave.

PyTorch rounds after every operation because each of its kernels stores to memory; in one kernel the roundings in between
only add error, and the hardware has no bf16 arithmetic worth the name.  Integers, comparisons and f64 stay as they are.

What says ``inferno.rounds`` is rounded all the same: a cast that the program asks for, and a value that several read, each of which
would have it with other bits otherwise: no column's greatest number would be equal to any of its elements.  So is what a comparison with
another value reads, which may have come from memory: of a number that was kept and is computed again only the rounded one is equal to it.
And so is what the place of a greatest number is found of, as it is the first of several that rounding makes equal.
"""

from inferno.mlir import arith, ir, is_read, owner, terminator, users, walk
from inferno.passes.contraction import is_sum_of_products

ROUNDS = "inferno.rounds"
_MOVES = ("arith.constant", "arith.bitcast", "arith.extf", "tensor.extract")
_EQUALITIES = {arith.CmpFPredicate.OEQ, arith.CmpFPredicate.UEQ, arith.CmpFPredicate.ONE, arith.CmpFPredicate.UNE}
_LOGIC = ("arith.ori", "arith.andi", "arith.xori", "arith.select")
_SKIP = {"arith.constant", "arith.bitcast", "arith.truncf", "arith.extf", "linalg.yield", "tensor.extract", "arith.select"}


def widen_arithmetic(module: ir.Module) -> None:
    """Rewrite the body of every generic that computes in a 16-bit float, but for plain sums of products: what these are has a type of its own."""
    for op in walk(module.operation, "linalg.generic"):
        if not is_sum_of_products(op):
            _widen(op)


def mark_rounding(generic: ir.Operation) -> None:
    """Let what a generic yields in 16 bits be rounded, in whatever body its own is."""
    for made in _unmarked(generic):
        made.attributes[ROUNDS] = ir.UnitAttr.get()


def is_marked(generic: ir.Operation) -> bool:
    """Whether ``mark_rounding`` has nothing to do, as for all that is computed in 32 bits."""
    return not _unmarked(generic)


def _unmarked(generic: ir.Operation) -> list[ir.Operation]:
    block = generic.regions[0].blocks[0]
    made = (owner(v) for v in terminator(block).operands if _is_narrow(v.type))
    return [o for o in made if o is not None and o.name not in _MOVES and ROUNDS not in o.attributes]


def _tells_apart(op: ir.Operation) -> bool:
    """Whether it compares two values, and not to find the greater of them; with a constant, whether they are equal."""
    if op.name != "arith.cmpf":
        return False
    if _finds_place(op):
        return True
    operands, predicate = [_unrounded(v) for v in op.operands], arith.CmpFPredicate(ir.IntegerAttr(op.attributes["predicate"]).value)
    body = op.block.owner
    if operands[0] == operands[1] or (body.name == "linalg.generic" and any(_is_total(v, body) for v in operands)):
        return False
    if predicate not in _EQUALITIES and any((made := owner(v)) is not None and made.name == "arith.constant" for v in operands):
        return False
    return not all(u.name == "arith.select" and {_unrounded(v) for v in list(u.operands)[1:]} == set(operands) for u in users(op.results[0]))


def _finds_place(op: ir.Operation) -> bool:
    """Whether by its comparison with what a reduction has so far a whole number is chosen, as argmax chooses a place."""
    body = op.block.owner
    if op.name != "arith.cmpf" or body.name != "linalg.generic" or not any(_is_total(_unrounded(v), body) for v in op.operands):
        return False
    todo, seen = [op], {op}
    while todo:
        for user in users(todo.pop().results[0]):
            if user.name == "arith.select" and isinstance(user.results[0].type, (ir.IntegerType, ir.IndexType)):
                return True
            if user.name in _LOGIC and user not in seen:
                seen.add(user)
                todo.append(user)
    return False


def _mark_placed(generic: ir.Operation) -> None:
    """Let numbers whose places are found be rounded for all that reads them: the greatest of them has to be one of them."""
    for op in walk(generic, "arith.cmpf"):
        if not _finds_place(op):
            continue
        for value in op.operands:
            made = owner(value)
            made = owner(made.operands[0]) if made is not None and made.name == "arith.extf" else made
            if made is not None and made.name not in _MOVES and _is_narrow(made.results[0].type):
                made.attributes[ROUNDS] = ir.UnitAttr.get()


def _unrounded(value: ir.Value) -> ir.Value:
    while (made := owner(value)) is not None and made.name in ("arith.truncf", "arith.extf"):
        value = made.operands[0]
    return value


def _is_total(value: ir.Value, generic: ir.Operation) -> bool:
    """Whether it is what a reduction has so far."""
    block = generic.regions[0].blocks[0]
    return value in list(block.arguments)[len(block.arguments) - len(generic.results):]


def _is_narrow(type_: ir.Type) -> bool:
    """Whether numbers of it are computed in f32 instead, by everything that takes and gives floats of one type."""
    return isinstance(type_, (ir.BF16Type, ir.F16Type))


def _widen(generic: ir.Operation) -> None:
    _mark_placed(generic)
    for op in walk(generic):
        floats = [*(v.type for v in op.operands), *(r.type for r in op.results)]
        if len(op.regions) or not any(_is_narrow(t) for t in floats) or op.name in _SKIP - {"arith.select"}:
            continue
        if not op.name.startswith(("arith.", "math.")):
            continue
        _compute_wide(op)
    for op in reversed(walk(generic, "scf.if")):  # outer ones first: what their branches yield may be an inner one's result
        _choose_wide(op)
    drop_round_trips(generic)


def _compute_wide(op: ir.Operation) -> None:
    """Replace ``op`` by itself on f32, with its result rounded back for readers that want it narrow."""
    wide = ir.F32Type.get(op.context)
    with ir.InsertionPoint(op), op.location:
        extend = arith.extf if _tells_apart(op) else _extend
        operands = [extend(wide, v) if _is_narrow(v.type) else v for v in op.operands]
        results = [wide if _is_narrow(r.type) else r.type for r in op.results]
        attributes = {name: op.attributes[name] for name in op.attributes if name != ROUNDS}
        new = ir.Operation.create(op.name, results=results, operands=operands, attributes=attributes)
        for old, made in zip(op.results, new.results):
            if made.type != old.type:
                made = arith.truncf(old.type, made)
                if ROUNDS in op.attributes:
                    made.owner.attributes[ROUNDS] = ir.UnitAttr.get()
            old.replace_all_uses_with(made)
    op.erase()


def _choose_wide(choice: ir.Operation) -> None:
    """Let what an ``scf.if`` chooses between be f32 where a branch computed it so and a reader wants it so: no branch rounds it then."""
    wide = ir.F32Type.get(choice.context)
    ends = [terminator(region.blocks[0]) for region in choice.regions if len(region.blocks)]
    for number, result in enumerate(choice.results):
        if ROUNDS in choice.attributes or not _is_narrow(result.type) or not any(u.name == "arith.extf" and u.results[0].type == wide for u in users(result)):
            continue
        if not any(_is_rounded(end.operands[number], wide) for end in ends):
            continue
        narrow = result.type
        for end in ends:
            with ir.InsertionPoint(end), choice.location:
                end.operands[number] = _extend(wide, end.operands[number])
        readers = list(users(result))
        result.set_type(wide)
        with ir.InsertionPoint.after(choice), choice.location:
            rounded = arith.truncf(narrow, result)
        for reader in readers:
            for place, value in enumerate(reader.operands):
                if value == result:
                    reader.operands[place] = rounded


def _is_rounded(value: ir.Value, wide: ir.Type) -> bool:
    """Whether it was computed in f32, maybe in a branch of its own."""
    made = owner(value)
    if made is not None and made.name == "scf.if":
        number = list(made.results).index(value)
        ends = (terminator(region.blocks[0]) for region in made.regions)
        return any(_is_rounded(end.operands[number], wide) for end in ends)
    return made is not None and made.name == "arith.truncf" and made.operands[0].type == wide


def _extend(wide: ir.Type, value: ir.Value) -> ir.Value:
    """The value in f32, without going through the narrow type where it was just rounded to it."""
    made = owner(value)
    if made is not None and made.name == "arith.truncf" and made.operands[0].type == wide and ROUNDS not in made.attributes:
        return made.operands[0]
    if made is not None and made.name == "arith.constant":
        return arith.constant(wide, ir.FloatAttr.get(wide, ir.FloatAttr(made.attributes["value"]).value))
    return arith.extf(wide, value)


def drop_round_trips(generic: ir.Operation) -> None:
    """``extf(truncf(x))`` is x, unless it says that it rounds, and what nothing reads any more goes."""
    _mark_placed(generic)
    for op in walk(generic, "arith.extf"):
        made = owner(op.operands[0])
        if made is None or made.name != "arith.truncf" or ROUNDS in made.attributes:
            continue
        if made.operands[0].type == op.results[0].type and _is_narrow(made.results[0].type) and not any(map(_tells_apart, users(op.results[0]))):
            op.results[0].replace_all_uses_with(made.operands[0])
            op.erase()
    for op in reversed(walk(generic)):
        if op.name in ("arith.truncf", "arith.extf", "arith.constant") and not is_read(op.results[0]):
            op.erase()
