"""Roll equal steps that depend on each other into one kernel with a loop: a recurrent layer, or a cell that a program calls again and again.

A step begins with a product of what the step before made, and is that and the elementwise kernels between it and the next product.  Steps are equal where
their kernels are, but for where slices begin, if that moves by as much in each step.  What a step makes for the next one is a state, which the loop carries.
States that are read elsewhere are written to a history, of all steps: readers take slices of it.

Done where a generator takes the loop and its estimate is below that of the calls that it stands for; with ``always=1`` wherever a generator takes it.
"""

from dataclasses import dataclass, field
from math import inf

from inferno.mlir import arith, clone_onto, func, ir, linalg, owner, scf, tensor, users
from inferno.passes.programs import VIEWS, anonymous, callee, operations_in, readers, root_of, wants_library
from inferno.schedule.analysis.cost import count_bytes, fastest
from inferno.schedule.matmul.product_times import product_time
from inferno.schedule.passes.batch_products import Slices, batch_type, batched, slices_of
from inferno.schedule.passes.calls import calls_in, free_name, inputs_of, may_change, new_kernel, tell_sources
from inferno.schedule.passes.equal_steps import EqualSteps, State, Steps, place_of
from inferno.schedule.passes.first_steps import from_zeros, zeros_like
from inferno.schedule.passes.inline_steps import inline_step
from inferno.schedule.passes.join_loops import join_loops
from inferno.schedule.passes.join_pieces import join_pieces
from inferno.schedule.passes.merge_calls import erase_views
from inferno.schedule.passes.stacks import position, read_elements, reshaped, stacked
from inferno.schedule.recurrence import recurrence
from inferno.schedule.recurrence.kernel import Order
from inferno.target import find_target

# Microseconds of a kernel of a step, and bytes that it moves in one (H100, an LSTM of 8x64x512 in float32: 8 us a step, of three kernels and a copy of its
# state).
_START, _MEMORY_RATE = 1.9, 3.0e6


def roll_steps(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels.  ``always``: "1" for rolling wherever a generator takes it."""
    machine = find_target(target)
    if machine.kind != "nvptx" or machine.capability < 90 or wants_library(module):
        return
    _Roll.rewrite(module, machine, always=always == "1")


@dataclass
class _Roll(EqualSteps):
    """``always``: wherever a generator takes it.  ``rolled``: the names of kernels with loops; ``loops``: by the text of a kernel the one to call, and its
    microseconds."""

    always: bool = False
    rolled: set[str] = field(default_factory=set)
    loops: dict[str, tuple[func.FuncOp | None, float]] = field(default_factory=dict)

    def run(self) -> bool:
        """Whether anything was rolled."""
        changed, first, tried = False, 0, set()
        calls = self.calls()
        while first < len(calls):
            call = calls[first]
            steps = self.steps_from(call) if call not in tried and self.is_product(call) else None
            if steps is not None and self.roll(steps):
                changed, calls, tried = True, self.calls(), set()  # the operations in them may be gone
                continue
            if steps is not None:
                tried.update(each[0] for each in steps.calls)
            first += 1
        if len(self.rolled) > 0:
            join_loops(self, self.rolled, self.always)
        return changed

    def calls(self) -> list[ir.Operation]:
        return calls_in(self.main)

    # The loop.

    def roll(self, steps: Steps) -> bool:
        """Call a kernel with the loop in the place of all calls, if that takes less time than they."""
        states = list(dict.fromkeys(steps.carried.values()))
        if not states or len({tuple(steps.made(0, s).type.shape) for s in states}) != 1 or steps.made(0, states[0]).type.rank not in (1, 2):
            return False
        initial = self.initial(steps)
        if initial is None:
            return False
        at, front = steps.calls[0][-1], from_zeros(self, steps, initial)
        if front:
            steps.zeros = initial
        every = {c for each in (front, *steps.calls) for c in each}
        read: dict[State, list[ir.Operation]] = {}
        values = {steps.made(n, s): s for n in range(steps.count) for s in states}
        for value in (*values, *(r for each in steps.calls for c in each for r in c.results)):
            for user in readers(value):
                if user not in every:
                    if value not in values or not at.is_before_in_block(user):
                        return False
                    read.setdefault(values[value], []).append(user)
        whole = {call: found for call in dict.fromkeys(u for each in read.values() for u in each)
                 if (found := self.whole(call, steps, states, initial)) is not None}
        orders = {s: [order for state, order in whole.values() if state == s] for s in states if s in read}
        histories = [(s, next(iter(found), Order(not front, False))) for s, found in orders.items()]
        batches = self.batches(steps)
        if batches is None:
            return False
        external = self.external(steps, batches)
        kernel = self.loop(steps, self.kernel(steps, external, batches, states, initial, histories))
        if kernel is None:
            return False
        with ir.InsertionPoint(at):
            sums = [self.batch(op, factors, steps.count) for op, factors in batches.items()]
        begun = [] if front else [initial[s] for s in states]
        self.replace(steps, front, kernel, [*external, *sums, *begun], histories, [c for c, found in whole.items() if found in histories])
        return True

    def batches(self, steps: Steps) -> dict[ir.Operation, list[ir.Value | Slices]] | None:
        """The products of the first step that wait for no state, with their factors; None where a factor is none that all steps can have together."""
        ops = [owner(self.path(inputs_of(steps.calls[0][number])[i])[0]) for number, i in sorted(steps.apart)]
        for number, call in enumerate(steps.calls[0]):
            product, given = self.product(call), inputs_of(call)
            if product is not None and not any((number, n) in steps.carried or place_of(steps.calls[0], self.path(given[n])[0]) for n in product.factors):
                ops.append(call)
        (begins, moves), found = self.moving(steps), {}
        for op in dict.fromkeys(ops):
            factors: list[ir.Value | Slices] = []
            for n in self.product(op).factors:
                value = inputs_of(op)[n]
                root, path = self.path(value)
                moving = [x for x in path if x.name == "func.call" and any(moves.get((x, 0), ()))]
                factor: ir.Value | Slices | None = value
                if moving:
                    key = moving[0], 0
                    factor = slices_of(self.kernels[callee(moving[0])], root, begins[key], moves[key]) if path == moving else None
                if factor is None or place_of(steps.calls[0], root) is not None:
                    return None
                factors.append(factor)
            found[op] = factors
        return found

    def batch(self, op: ir.Operation, factors: list[ir.Value | Slices], count: int) -> ir.Value:
        """The sums of all steps, at the insertion point."""
        product = self.product(op)
        values, type_ = [f.whole if isinstance(f, Slices) else f for f in factors], batch_type(product, count)
        kernel = new_kernel(self.module, self.kernels[callee(op)], callee(op), [v.type for v in values], [type_])
        batched(kernel, product, factors, count)
        for name in self.kernels[callee(op)].attributes:
            if name.startswith("inferno."):
                kernel.attributes[name] = self.kernels[callee(op)].attributes[name]
        self.kernels[kernel.name.value] = kernel
        call = func.CallOp(kernel, [*values, tensor.EmptyOp(list(type_.shape), type_.element_type).result]).operation
        tell_sources(call, [op])
        return call.results[0]

    def whole(
        self, call: ir.Operation, steps: Steps, states: list[State], initial: dict[State, ir.Value],
    ) -> tuple[State, Order] | None:
        """The state of which a call puts together all there are, and in which order."""
        kernel = self.kernels.get(callee(call)) if call.name == "func.call" else None
        pieces = stacked(kernel) if kernel is not None and may_change(kernel) else None
        if pieces is None:
            return None
        given = [root_of(inputs_of(call)[n]) for n in pieces]
        for state in states:
            made = [steps.made(n, state) for n in range(steps.count)]
            if call.results[0].type.element_type != made[0].type.element_type:
                continue
            for order in [Order(initial_, back) for initial_ in ((False,) if steps.zeros else (False, True)) for back in (False, True)]:
                values = [initial[state], *made] if order.initial else made
                if given == (values[::-1] if order.backwards else values):
                    return state, order
        return None

    def loop(self, steps: Steps, kernel: func.FuncOp) -> func.FuncOp | None:
        """The kernel with the loop if it is to be called, or an equal one that another layer calls; None, without a kernel, if it is not."""
        text = anonymous(kernel)
        if text not in self.loops:
            found = recurrence.candidates(recurrence.read(kernel, self.target), self.target)
            self.loops[text] = None, fastest(found)[0]
        known, time = self.loops[text]
        taken = time < inf and (self.always or time < self.time(steps))
        if not taken or known is not None:
            kernel.operation.erase()
            return known if taken else None
        self.loops[text] = kernel, time
        return kernel

    def time(self, steps: Steps) -> float:
        """Microseconds of the calls, copies of slices and products that wait for no step not counted."""
        return steps.count * sum(self.estimate(self.kernels[callee(c)]) for c in steps.calls[0])

    def estimate(self, kernel: func.FuncOp) -> float:
        return max(product_time(kernel, self.target) or 0.0, _START + count_bytes(kernel) / _MEMORY_RATE)

    def kernel(
        self, steps: Steps, external: list[ir.Value], batches: dict[ir.Operation, list[ir.Value | Slices]], states: list[State],
        initial: dict[State, ir.Value], histories: list[tuple[State, Order]],
    ) -> func.FuncOp:
        """The kernel function: what the first step's calls do, in a loop."""
        count = steps.count
        types = [steps.made(0, s).type for s, _ in histories]
        wholes = [ir.RankedTensorType.get([count + order.initial, *t.shape], t.element_type) for t, (_, order) in zip(types, histories)]
        before = self.kernels[callee(steps.calls[0][0])]
        name = free_name(self.module, f"steps_{callee(steps.calls[0][0])}")
        sums = [batch_type(self.product(op), count) for op in batches]
        given_states = [] if steps.zeros else [initial[s].type for s in states]
        kernel = new_kernel(self.module, before, name, [*(v.type for v in external), *sums, *given_states], wholes)
        arguments = list(kernel.entry_block.arguments)
        known, given = dict(zip(external, arguments)), len(external) + len(sums)
        taken = dict(zip(batches, arguments[len(external):]))
        begun, destinations = arguments[given:given + len(given_states)], arguments[given + len(given_states):]
        with ir.InsertionPoint(kernel.entry_block):
            zero, one, end = (arith.constant(ir.IndexType.get(), n) for n in (0, 1, count))
            begun = begun or [zeros_like(initial[s].type) for s in states]
            written = [
                _insert(begun[states.index(s)], d, order.place(-1, count)) if order.initial else d for (s, order), d in zip(histories, destinations)
            ]
            loop = scf.ForOp(zero, end, one, [*begun, *written])
            with ir.InsertionPoint(loop.body):
                carried = list(loop.inner_iter_args)
                made = inline_step(self, steps, known, taken, dict(zip(states, carried)), loop.induction_variable)
                now = loop.induction_variable
                written = [_insert(made[s], d, _now(now, order, count)) for (s, order), d in zip(histories, carried[len(states):])]
                scf.yield_([*(made[s] for s in states), *written])
            func.ReturnOp(list(loop.results)[len(states):])
        return kernel

    # The program.

    def replace(
        self, steps: Steps, front: list[ir.Operation], kernel: func.FuncOp, taken: list[ir.Value], histories: list[tuple[State, Order]],
        stacks: list[ir.Operation],
    ) -> None:
        """Call the kernel; ``front`` are calls of a step in front, and ``stacks`` calls that make what a history is."""
        with ir.InsertionPoint(steps.calls[0][-1]):
            wholes = list(kernel.type.results)
            call = func.CallOp(kernel, [*taken, *(tensor.EmptyOp(list(t.shape), t.element_type).result for t in wholes)]).operation
        tell_sources(call, [c for each in steps.calls[:1] for c in each])
        self.kernels[kernel.name.value] = kernel
        self.rolled.add(kernel.name.value)
        every = {c for each in (front, *steps.calls) for c in each}
        slices: dict[ir.Value, tuple[ir.Value, int]] = {}
        for (state, order), whole in zip(histories, call.results):
            for step in range(steps.count):
                slices[steps.made(step, state)] = whole, order.place(step, steps.count)
        for stack in stacks:
            roots, result = map(root_of, inputs_of(stack)), stack.results[0]
            whole = next(slices[r][0] for r in roots if r in slices)
            with ir.InsertionPoint.after(call):
                whole = reshaped(whole, result.type)
            result.replace_all_uses_with(whole)
            stack.erase()
        for user in dict.fromkeys(u for v in slices for u in readers(v) if u not in every):
            if user.name == "func.call" and callee(user) in self.kernels and may_change(self.kernels[callee(user)]) and not self.is_product(user):
                self.read_slices(user, slices)  # (``fold-slices`` lets products read slices)
        for value, (whole, place) in slices.items():
            if any(u not in every for u in readers(value)):
                self.copy(value, whole, place, call)
        for each in reversed([front, *steps.calls]):
            for old in reversed(each):
                for result in old.results:
                    for user in list(users(result)):
                        erase_views(user)
                old.erase()
        for op in reversed(self.calls()):
            if (self.copies(op) or self.is_product(op)) and not any(True for _ in readers(op.results[0])):
                erase_views(op)

    def read_slices(self, user: ir.Operation, slices: dict[ir.Value, tuple[ir.Value, int]]) -> None:
        """Let a call read slices of histories where it lies, in a kernel of its own."""
        old, given = self.kernels[callee(user)], inputs_of(user)
        roots = [root_of(v) for v in given]
        wholes = list(dict.fromkeys(slices[r][0] for r in roots if r in slices))
        kept = [v for v, r in zip(given, roots) if r not in slices]
        kernel = new_kernel(self.module, old, callee(user), [*(v.type for v in kept), *(w.type for w in wholes)], [r.type for r in user.results])
        for name in old.attributes:
            if name not in ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs"):
                kernel.attributes[name] = old.attributes[name]
        arguments = list(kernel.entry_block.arguments)
        whole_of = dict(zip(wholes, arguments[len(kept):]))
        own = iter(arguments)
        with ir.InsertionPoint(kernel.entry_block):
            values, made = [], {}
            for v, r in zip(given, roots):
                if r not in slices:
                    values.append(next(own))
                    continue
                whole, place = slices[r]
                if r not in made:
                    made[r] = position(whole_of[whole], place, r.type)
                values.append(_viewed(v, made[r]))
            here = dict(zip(old.entry_block.arguments, [*values, *arguments[len(kept) + len(wholes):]]))
            for op in operations_in(old):
                clone_onto(op, here)
        parts = {made[r]: (whole_of[slices[r][0]], slices[r][1]) for r in made}
        read_elements(kernel, parts)
        join_pieces(kernel, parts)
        self.kernels[kernel.name.value] = kernel
        with ir.InsertionPoint(user):
            new = func.CallOp(kernel, [*kept, *wholes, *list(user.operands)[len(given):]]).operation
        for name in user.attributes:
            if name != "callee":
                new.attributes[name] = user.attributes[name]
        for a, b in zip(user.results, new.results):
            a.replace_all_uses_with(b)
        user.erase()

    def copy(self, value: ir.Value, whole: ir.Value, place: int, call: ir.Operation) -> None:
        """Make a slice of a history a tensor of its own."""
        shape = list(value.type.shape)
        kernel = new_kernel(self.module, self.kernels[callee(call)], "extract_slice", [whole.type], [value.type])
        source, destination = kernel.entry_block.arguments
        with ir.InsertionPoint(kernel.entry_block):
            func.ReturnOp([linalg.copy(position(source, place, value.type), outs=[destination])])
        self.kernels[kernel.name.value] = kernel
        with ir.InsertionPoint.after(call):
            new = func.CallOp(kernel, [whole, tensor.EmptyOp(shape, value.type.element_type).result]).operation
        tell_sources(new, [call])
        value.replace_all_uses_with(new.results[0])
        at = new
        pending = [u for u in users(new.results[0]) if u.name in VIEWS]
        while pending:
            view = pending.pop(0)
            view.move_after(at)
            at = view
            pending += [u for u in users(view.results[0]) if u.name in VIEWS]


def _insert(value: ir.Value, into: ir.Value, at: ir.Value | int) -> ir.Value:
    """A state in its history."""
    shape, varying = list(value.type.shape), [at] if isinstance(at, ir.Value) else []
    begin = ir.ShapedType.get_dynamic_size() if varying else at
    return tensor.InsertSliceOp(value, into, varying, [], [], [begin, *[0] * len(shape)], [1, *shape], [1] * (len(shape) + 1)).result


def _now(step: ir.Value, order: Order, steps: int) -> ir.Value:
    """The place of a step's state."""
    if order.backwards:
        return arith.subi(arith.constant(ir.IndexType.get(), steps - 1), step)
    return arith.addi(step, arith.constant(ir.IndexType.get(), 1)) if order.initial else step


def _viewed(value: ir.Value, root: ir.Value) -> ir.Value:
    """The same view of another root."""
    op = owner(value)
    if op is None or op.name not in VIEWS:
        return root
    clone = op.clone()
    clone.operands[0] = _viewed(op.operands[0], root)
    return clone.results[0]
