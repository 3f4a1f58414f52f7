"""Rewrite reductions that subtract their terms as sums of negated terms: the import of ``(-x).sum()`` is folded to subtractions, which cannot be regrouped.

``a - b`` and ``a + (-b)`` are the same number, so generators of reductions need to know sums alone.  This is the last word on it: canonicalisation folds
them again, and ``to_buffers`` asks for it once more.
"""

from inferno.mlir import arith, ir, owner, walk
from inferno.passes.generics import body, inputs, is_reduction, use_count, yielded


def negate_terms(module: ir.Module) -> None:
    """Rewrite the bodies of reductions."""
    with module.context, ir.Location.unknown():
        for generic in walk(module.operation, "linalg.generic"):
            if is_reduction(generic):
                for number, value in enumerate(yielded(generic)):
                    _negate(value, body(generic).arguments[len(inputs(generic)) + number])


def _negate(value: ir.Value, running: ir.Value) -> None:
    """Let ``value`` be the sum of ``running`` and a term, where it is their difference; both may be converted to a wider type and back."""
    made = owner(value)
    if made is not None and made.name == "arith.truncf":
        made = owner(made.operands[0])
    if made is None or made.name != "arith.subf":
        return
    first, term = made.operands
    wide = owner(first)
    if first != running and not (wide is not None and wide.name == "arith.extf" and wide.operands[0] == running):
        return
    if use_count(first) != 1 or first == term:
        return
    attributes = {name: made.attributes[name] for name in made.attributes}
    with ir.InsertionPoint(made), made.location:
        new = ir.Operation.create("arith.addf", results=[first.type], operands=[first, arith.negf(term)], attributes=attributes)
    made.results[0].replace_all_uses_with(new.results[0])
    made.erase()
