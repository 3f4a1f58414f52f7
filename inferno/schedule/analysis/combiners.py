"""How a reduction's running value is combined with a term, where that is known well enough to be regrouped."""

import math
from dataclasses import dataclass
from struct import pack, unpack

from inferno.mlir import arith, clone_onto, ir, owner, terminator
from inferno.passes.generics import use_count
from inferno.passes.import_scans import LINEAR, RUNNING

# Combiners that may be applied in any order, and the value that changes nothing.
_IDENTITY: dict[str, float | int | str] = {
    "arith.addf": -0.0, "arith.mulf": 1.0, "arith.maximumf": -math.inf, "arith.minimumf": math.inf, "arith.maxnumf": math.nan,
    "arith.minnumf": math.nan, "arith.addi": 0, "arith.muli": 1, "arith.andi": -1, "arith.ori": 0, "arith.xori": 0,
    "arith.maxsi": "least", "arith.minsi": "most", "arith.maxui": 0, "arith.minui": -1,
}
# Of bodies that are more than an operation, by what ``import_scans.RUNNING`` says.
# Of a recurrence it multiplies by 1, and is no state.
_BODIES: dict[str, float | tuple[float, float]] = {"logaddexp": -math.inf, LINEAR: (1.0, -0.0)}


@dataclass(frozen=True)
class Combiner:
    """The operation that adds a term to a running value.

    ``narrow`` is the type in memory.  Running values have ``type``, float32 for 16-bit floats, float64 for float32 products.  What many running values come
    together in has ``total``: float64 for float32 sums, so that their number adds no error.  Where terms wait for memory all is
    added as totals.
    """

    name: str
    narrow: ir.Type
    type: ir.Type
    total: ir.Type

    @property
    def sums(self) -> bool:
        """Whether rounding errors add up."""
        return self.name == "arith.addf"

    def identity(self, type_: ir.Type | None = None) -> ir.Value:
        type_ = type_ or self.type
        return arith.constant(type_, self.neutral(type_))

    def neutral(self, type_: ir.Type) -> ir.Attribute:
        """The value that changes nothing."""
        value = _IDENTITY[self.name]
        if isinstance(value, float):
            return ir.FloatAttr.get(type_, value)
        width = ir.IntegerType(type_).width
        value = {"least": -(1 << (width - 1)), "most": (1 << (width - 1)) - 1}.get(value, value)
        return ir.IntegerAttr.get(type_, value)

    def combine(self, a: ir.Value, b: ir.Value) -> ir.Value:
        attributes = {"fastmath": ir.Attribute.parse("#arith.fastmath<contract>")} if self.name in ("arith.addf", "arith.mulf") else {}
        return ir.Operation.create(self.name, results=[a.type], operands=[a, b], attributes=attributes).results[0]

    def widen(self, value: ir.Value) -> ir.Value:
        """A term, or a value from memory, as a running value; a rounding to the type in memory is undone."""
        op = owner(value)
        if value.type != self.type and op is not None and op.name == "arith.truncf" and op.operands[0].type == self.type:
            return op.operands[0]
        return _convert(value, self.type)

    def to_total(self, value: ir.Value) -> ir.Value:
        return _convert(value, self.total)

    def from_total(self, value: ir.Value) -> ir.Value:
        return _convert(value, self.type)

    def round(self, value: ir.Value) -> ir.Value:
        """As it goes to memory."""
        return _convert(value, self.narrow)


@dataclass(frozen=True)
class BodyCombiner(Combiner):
    """A combination that is the ``body`` of an operation."""

    body: ir.Block

    def identity(self, type_: ir.Type | None = None) -> ir.Value:
        value = _BODIES[self.name]
        if isinstance(value, tuple):
            (word,) = unpack("<q", pack("<ff", *value))
            return arith.constant(self.type, ir.IntegerAttr.get(self.type, word))
        return arith.constant(self.type, ir.FloatAttr.get(self.type, value))

    def combine(self, a: ir.Value, b: ir.Value) -> ir.Value:
        known = dict(zip(self.body.arguments, (a, b)))
        for op in [o.operation for o in self.body.operations]:
            if op.name == "tm_tensor.yield":
                return known[op.operands[0]]
            for value in op.operands:
                if value not in known and owner(value) is not None and owner(value).block != self.body:
                    known[value] = owner(value).clone().results[0]  # a constant
            clone_onto(op, known)
        raise ValueError("the body does not end in a yield")


def _convert(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A float in another precision; anything else as it is."""
    if value.type == type_:
        return value
    return arith.extf(type_, value) if type_.width > value.type.width else arith.truncf(type_, value)


def read_combiner(body: ir.Block, running: ir.Value, result: int = 0) -> Combiner | None:
    """How ``body`` computes a result from the running value and a term that does not depend on it; None if not like that."""
    value = terminator(body).operands[result]
    found = _combination(body, running, value)
    if found is None:
        return None
    type_ = found[0].results[0].type
    if found[0].name in ("arith.addf", "arith.mulf") and isinstance(type_, (ir.F16Type, ir.BF16Type)):
        type_ = ir.F32Type.get()
    elif found[0].name == "arith.mulf" and isinstance(type_, ir.F32Type):
        type_ = ir.F64Type.get()  # each factor's rounding counts in full, and products of many terms are rare
    total = ir.F64Type.get() if found[0].name == "arith.addf" and isinstance(type_, ir.F32Type) else type_
    return Combiner(found[0].name, value.type, type_, total)


def _combination(body: ir.Block, running: ir.Value, value: ir.Value) -> tuple[ir.Operation, ir.Value] | None:
    """The operation that combines ``running`` with a term, and the term; both may be converted to a wider type and back."""
    op = owner(value)
    if op is not None and op.name == "arith.truncf" and _single(value):
        uses = [u.owner.operation for u in running.uses]
        if len(uses) != 1 or uses[0].name != "arith.extf":
            return None
        running, value = uses[0].results[0], op.operands[0]
        op = owner(value)
    if op is None or op.name not in _IDENTITY or op.parent != body.owner.operation or list(op.operands).count(running) != 1:
        return None
    if not _single(running) or not _single(value):
        return None
    return op, next(v for v in op.operands if v != running)


def _single(value: ir.Value) -> bool:
    return use_count(value) == 1


def scan_combiner(scan: ir.Operation) -> Combiner | None:
    """How a ``tm_tensor.scan`` combines elements with the running value, if in any order."""
    body = scan.regions[0].blocks[0]
    if RUNNING in scan.attributes:
        type_, taken = body.arguments[0].type, {v for o in body.operations for v in o.operation.operands}
        constants = [owner(v) for v in taken if owner(v) is not None and owner(v).block != body]
        kind = ir.StringAttr(scan.attributes[RUNNING]).value
        known = kind in _BODIES and all(o.name == "arith.constant" for o in constants)
        return BodyCombiner(kind, type_, type_, type_, body) if known else None
    return read_combiner(body, body.arguments[0])


def term_of(body: ir.Block, running: ir.Value) -> ir.Value | None:
    """What ``body`` combines the running value with, where ``read_combiner`` understands it."""
    found = _combination(body, running, terminator(body).operands[0])
    return found[1] if found is not None else None


def to_term(body: ir.Block, running: ir.Value, result: int) -> None:
    """Make ``body`` yield the term instead of its combination with ``running``, which is not read then."""
    end = terminator(body)
    value = end.operands[result]
    op, term = _combination(body, running, value)
    end.operands[result] = term
    if owner(value) != op:
        owner(value).erase()
    op.erase()
    for use in list(running.uses):
        use.owner.operation.erase()
