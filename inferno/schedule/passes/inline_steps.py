"""Inline the calls of one step into the body of a loop over steps."""

from collections.abc import Sequence
from dataclasses import dataclass

from inferno.mlir import arith, clone_onto, ir, owner, tensor
from inferno.passes.programs import callee, operations_in
from inferno.schedule.passes.batch_products import needed
from inferno.schedule.passes.calls import inputs_of
from inferno.schedule.passes.equal_steps import Begins, EqualSteps, Path, State, Steps


@dataclass
class Inline:
    """Clones what calls do into the loop's body."""

    found: EqualSteps
    begins: Begins
    moves: Begins
    sums: dict[ir.Operation, ir.Value]
    step: ir.Value

    def viewed(self, value: ir.Value, root: ir.Value | None) -> ir.Value | None:
        """What a value is where ``root`` is what it is read of; nothing where that is not known, and a product of all steps reads it."""
        return None if root is None else self.path(root, self.found.path(value)[1])

    def path(self, value: ir.Value, path: Path) -> ir.Value:
        for op in reversed(path):
            if op.name == "func.call":
                value = self.call(op, [value])[0]
                continue
            clone = op.clone()
            clone.operands[0] = value
            value = clone.results[0]
        return value

    def call(self, call: ir.Operation, values: Sequence[ir.Value | None]) -> list[ir.Value]:
        """The results of a kernel's operations; of a copy what it copies, of a product of all steps this one's sums."""
        copies, sums = self.found.copies(call), self.sums.get(call)
        product = self.found.product(call) if sums is not None else None
        function = self.found.kernels[callee(call)] if product is None else product.function
        values = [*values, *(None if copies else tensor.EmptyOp(list(r.type.shape), r.type.element_type).result for r in call.results)]
        here = {a: v for a, v in zip(function.entry_block.arguments, values) if v is not None}
        if product is not None:
            type_ = product.op.results[0].type
            offsets = [ir.ShapedType.get_dynamic_size(), *[0] * type_.rank]
            part = tensor.ExtractSliceOp(type_, sums, [self.step], [], [], offsets, [1, *type_.shape], [1] * (type_.rank + 1)).result
            here[product.op.results[0]] = part
        number = 0
        for op in operations_in(function) if product is None else needed(product):
            if op.name == "func.return":
                return [here[v] for v in op.operands]
            if op.name == "tensor.extract_slice":
                here[op.results[0]] = _slice(op, here[op.operands[0]], self.moves[call, number], self.begins[call, number], self.step)
                number += 1
            elif op.name == "linalg.copy" and copies:
                here[op.results[0]] = here[op.operands[0]]
            else:
                clone_onto(op, here)
        raise AssertionError("a kernel returns")


def inline_step(
    found: EqualSteps, steps: Steps, known: dict[ir.Value, ir.Value], sums: dict[ir.Operation, ir.Value], states: dict[State, ir.Value], step: ir.Value,
) -> dict[State, ir.Value]:
    """What the calls of the first step do, with other values; ``sums`` are those of products of all steps."""
    known, made = dict(known), {}
    inline = Inline(found, *found.moving(steps), sums, step)
    for number, call in enumerate(steps.calls[0]):
        values: list[ir.Value | None] = []
        for i, operand in enumerate(inputs_of(call)):
            root, path = found.path(operand)
            if (number, i) in steps.apart:
                op = owner(root)
                given = [inline.viewed(v, known.get(found.path(v)[0])) for v in inputs_of(op)]
                values.append(inline.path(inline.call(op, given)[0], path))
            elif (number, i) in steps.carried:
                values.append(inline.path(states[steps.carried[number, i]], found.state_path(steps, number, i)))
            else:
                values.append(inline.viewed(operand, known.get(root)))
        for r, (result, value) in enumerate(zip(call.results, inline.call(call, values))):
            known[result] = made[number, r] = value
    return made


def _slice(op: ir.Operation, source: ir.Value, moves: tuple[int, ...], begins: tuple[int, ...], step: ir.Value) -> ir.Value:
    """A slice that moves from step to step."""
    sizes, strides = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("sizes", "strides"))
    offsets, varying = list(begins), []
    for d, move in enumerate(moves):
        if move:
            at = arith.muli(step, arith.constant(ir.IndexType.get(), move))
            varying.append(arith.addi(at, arith.constant(ir.IndexType.get(), begins[d])))
            offsets[d] = ir.ShapedType.get_dynamic_size()
    return tensor.ExtractSliceOp(op.results[0].type, source, varying, [], [], offsets, sizes, strides).result
