"""Equal steps that follow from each other become one kernel with a loop: a recurrent layer, or a cell that a program calls again and again.

A step begins with a product of what the step before made, and is that and the elementwise kernels between it and the next product.  Steps are equal where
their kernels are, but for where slices begin, if that moves by as much in each step.  What a step makes for the next one is a state, which the loop carries.
States that are read elsewhere are written to a history, of all steps: readers take slices of it.

Done where a generator takes the loop and its estimate is below that of the calls that it stands for; with ``always=1`` wherever a generator takes it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from inferno.mlir import arith, clone_onto, func, ir, linalg, owner, scf, tensor, users
from inferno.passes.deduplicate_kernels import deduplicate_kernels
from inferno.passes.generics import REDUCTION, is_generic, kinds
from inferno.passes.programs import VIEWS, callee, main_and_kernels, readers, root_of, wants_library
from inferno.schedule import recurrence
from inferno.schedule.batch_products import Product, Slices, batch_type, batched, needed, slices_of, take_apart
from inferno.schedule.cost import count_bytes, count_flops
from inferno.schedule.join_loops import join_loops
from inferno.schedule.merge_calls import erase_unused, free_name, inputs_of, may_change, new_kernel, operations_in, tell_sources
from inferno.schedule.pointwise import parse_pointwise
from inferno.schedule.recurrence_kernel import Order
from inferno.schedule.stacks import join_pieces, position, read_elements, reshaped, stacked
from inferno.target import Target, find_target

# Microseconds of a kernel of a step, bytes that it moves in one, and operations of a small product on CUDA cores (H100, an LSTM of 8x64x512 in float32: 8 us a
# step, of three kernels and a copy of its state).
_START, _MEMORY_RATE, _FLOPS = 1.9, 3.0e6, 2.0e7
_LEAST = 3  # steps
_SLICE = re.compile(r"(tensor\.extract_slice %[\w#]+)\[([-\d, ]+)\]")

Offsets = list[tuple[int, ...]]
Path = list[ir.Operation]
"""Views, and calls that copy a slice, between a value and what it is read of."""


def roll_steps(module: ir.Module, target: str, always: str = "") -> None:
    """Rewrite ``@main`` and its kernels.  ``always``: "1" for rolling wherever a generator takes it."""
    machine = find_target(target)
    if machine.kind != "nvptx" or machine.capability < 90 or wants_library(module):
        return
    main, kernels = main_and_kernels(module)
    if main is None:
        return
    with module.context, ir.Location.unknown():
        if _Roll(module, main, kernels, machine, always == "1").run():
            erase_unused(module, main)
            deduplicate_kernels(module)


@dataclass
class _Steps:
    """Calls of each step, in the same order.  ``carried``: of a call and operand by number, the call and result of the step before that it reads;
    ``apart``: operands that products make which wait for no step, of slices that move."""

    calls: list[list[ir.Operation]]
    carried: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    apart: set[tuple[int, int]] = field(default_factory=set)


class _Roll:
    def __init__(self, module: ir.Module, main: func.FuncOp, kernels: dict[str, func.FuncOp], target: Target, always: bool) -> None:
        self.module, self.main, self.kernels, self.target, self.always = module, main, kernels, target, always
        self.texts: dict[str, tuple[str, Offsets]] = {}
        self.sums: dict[str, int] = {}
        self.maps: dict[str, bool] = {}
        self.products: dict[str, Product | None] = {}
        self.rolled: set[str] = set()

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
            join_loops(self.module, self.main, self.kernels, self.rolled, self.target, self.always)
        return changed

    def calls(self) -> list[ir.Operation]:
        return [o for o in operations_in(self.main) if o.name == "func.call"]

    # Kernels.

    def is_product(self, call: ir.Operation) -> bool:
        """Whether a call's kernel has one contraction, and one result."""
        name = callee(call)
        if name not in self.sums:
            kernel = self.kernels.get(name)
            ops = operations_in(kernel) if kernel is not None and may_change(kernel) else []
            self.sums[name] = sum(is_generic(op) and REDUCTION in kinds(op) for op in ops)
        return self.sums[name] == 1 and len(call.results) == 1

    def product(self, op: ir.Operation | None) -> Product | None:
        """A call's kernel taken apart, if it is a product of whole arguments."""
        if op is None or op.name != "func.call" or not self.is_product(op):
            return None
        if (name := callee(op)) not in self.products:
            self.products[name] = take_apart(self.kernels[name])
        return self.products[name]

    def ends(self, call: ir.Operation, value: ir.Value) -> bool:
        """Whether a product reads a value behind its sums alone."""
        product = self.product(call)
        return product is not None and all(root_of(inputs_of(call)[n]) != value for n in product.factors)

    def is_map(self, call: ir.Operation) -> bool:
        name = callee(call)
        if name not in self.maps:
            kernel = self.kernels.get(name)
            self.maps[name] = kernel is not None and may_change(kernel) and not self.copies(call) and parse_pointwise(kernel) is not None
        return self.maps[name] and not self.is_product(call)

    def copies(self, op: ir.Operation) -> bool:
        """Whether a call does nothing but copy a slice."""
        kernel = self.kernels.get(callee(op)) if op.name == "func.call" else None
        if kernel is None or not may_change(kernel):
            return False
        found = [o for o in operations_in(kernel) if o.name not in (*VIEWS, "arith.constant", "func.return")]
        return [o.name for o in found] == ["tensor.extract_slice", "linalg.copy"]

    def text(self, name: str) -> tuple[str, Offsets]:
        """A kernel without its name and without where its slices begin; and that."""
        if name not in self.texts:
            text = str(self.kernels[name].operation)
            offsets = [tuple(int(n) for n in found[1].split(",")) for found in _SLICE.findall(text)]
            self.texts[name] = _SLICE.sub(r"\1[]", text).replace(f"@{name}(", "@(", 1), offsets
        return self.texts[name]

    def alike(self, a: ir.Operation, b: ir.Operation) -> bool:
        return callee(a) == callee(b) or (callee(b) in self.kernels and self.text(callee(a))[0] == self.text(callee(b))[0])

    def path(self, value: ir.Value) -> tuple[ir.Value, Path]:
        """What a value is read of, by views and copies of slices."""
        found: Path = []
        while (op := owner(value)) is not None and (op.name in VIEWS or self.copies(op)):
            found.append(op)
            value = op.operands[0]
        return value, found

    # Steps.

    def steps_from(self, first: ir.Operation) -> _Steps | None:
        """Steps of which the first one begins with this product."""
        start = self.first_step(first)
        if start is None:
            return None
        steps = _Steps([start])
        while (following := self.following(steps)) is not None:
            steps.calls.append(following)
        return steps if len(steps.calls) >= _LEAST and self.moves_evenly(steps) else None

    def first_step(self, product: ir.Operation) -> list[ir.Operation] | None:
        """The product and the maps between it and the next product like it, in order."""
        behind, pending = {product: set()}, [product]
        while pending:
            op = pending.pop(0)
            for user in dict.fromkeys(readers(op.results[0])) if len(op.results) == 1 else ():
                if user.name != "func.call":
                    continue
                if self.is_product(user) and self.alike(product, user):
                    needed, left = set(), [op]
                    while left:
                        one = left.pop()
                        if one not in needed:
                            needed.add(one)
                            left += [o for v in inputs_of(one) if (o := owner(root_of(v))) in behind and one != product]
                    return sorted(needed, key=lambda c: sum(c != o and not c.is_before_in_block(o) for o in needed))
                if user not in behind and (self.is_map(user) or self.ends(user, op.results[0])) and len(behind) < 16:
                    behind[user] = set()
                    pending.append(user)
        return None

    def following(self, steps: _Steps) -> list[ir.Operation] | None:
        """The next step, if there is one that is equal."""
        before, found = steps.calls[-1], []
        carried, apart = dict(steps.carried), set(steps.apart)
        for number, template in enumerate(before):
            if number == 0:
                made = [c.results[0] for c in before]
            else:
                made = [c.results[0] for c in found]
            candidates = [u for v in made for u in dict.fromkeys(readers(v)) if u.name == "func.call" and u not in before and u not in found]
            match = next((u for u in candidates if self.alike(template, u) and self.fits(steps, before, found, template, u, number, carried, apart)), None)
            if match is None:
                return None
            found.append(match)
        if len(steps.calls) > 1 and (carried, apart) != (steps.carried, steps.apart):
            return None
        steps.carried, steps.apart = carried, apart
        return found

    def fits(
        self, steps: _Steps, before: list[ir.Operation], found: list[ir.Operation], template: ir.Operation, call: ir.Operation, number: int,
        carried: dict[tuple[int, int], tuple[int, int]], apart: set[tuple[int, int]],
    ) -> bool:
        """Whether a call reads of its step, and of the one before, what ``template`` does."""
        taken: dict[tuple[int, int], tuple[int, int]] = {}
        alone: set[tuple[int, int]] = set()
        for i, (a, b) in enumerate(zip(inputs_of(template), inputs_of(call))):
            (from_a, path_a), (from_b, path_b) = self.path(a), self.path(b)
            if a.type != b.type or len(path_a) != len(path_b) or not all(map(self.same_view, path_a, path_b)):
                return False
            place = _place(before, from_a)
            if place is not None:
                if place[0] >= len(found) or found[place[0]].results[place[1]] != from_b:
                    return False
            elif (of_before := _place(before, from_b)) is not None:
                taken[number, i] = of_before
            elif from_a != from_b:
                if not self.same_product(owner(from_a), owner(from_b)):
                    return False
                alone.add((number, i))
        if len(steps.calls) > 1 and taken != {key: v for key, v in steps.carried.items() if key[0] == number}:
            return False
        carried.update(taken)
        apart.update(alone)
        return True

    def same_product(self, a: ir.Operation | None, b: ir.Operation | None) -> bool:
        """Whether two calls are one product of parts of the same tensors."""
        if self.product(a) is None or self.product(b) is None or not self.alike(a, b):
            return False
        pairs = [(self.path(v), self.path(w)) for v, w in zip(inputs_of(a), inputs_of(b))]
        return all(v == w and len(p) == len(q) and all(map(self.same_view, p, q)) for (v, p), (w, q) in pairs)

    def same_view(self, a: ir.Operation, b: ir.Operation) -> bool:
        if a.name != b.name or a.results[0].type != b.results[0].type or a.operands[0].type != b.operands[0].type:
            return False
        return self.alike(a, b) if a.name == "func.call" else True

    def moves_evenly(self, steps: _Steps) -> bool:
        """Whether all slices move by as much in each step; otherwise steps behind the first uneven one are left out."""
        begins = [self.begins(steps, n) for n in range(len(steps.calls))]
        moves = [_moves(a, b) for a, b in zip(begins, begins[1:])]
        count = next((i for i, each in enumerate(moves) if each != moves[0]), len(moves)) + 1
        del steps.calls[count:]
        return count >= _LEAST

    def begins(self, steps: _Steps, step: int) -> dict[tuple[ir.Operation, int], tuple[int, ...]]:
        """Where the slices of a step begin, by the operation of the first step that has them, and which of its slices they are."""
        found: dict[tuple[ir.Operation, int], tuple[int, ...]] = {}

        def add(first: ir.Operation, own: ir.Operation) -> None:
            found.update({(first, k): offsets for k, offsets in enumerate(self.text(callee(own))[1])})

        def add_path(a: ir.Value, b: ir.Value) -> None:
            for x, y in zip(self.path(a)[1], self.path(b)[1]):
                if x.name == "func.call":
                    add(x, y)

        for number, (first, own) in enumerate(zip(steps.calls[0], steps.calls[step])):
            for i, (a, b) in enumerate(zip(inputs_of(first), inputs_of(own))):
                add_path(a, b)
                if (number, i) in steps.apart:
                    x, y = (owner(self.path(v)[0]) for v in (a, b))
                    for v, w in zip(inputs_of(x), inputs_of(y)):
                        add_path(v, w)
                    add(x, y)
            add(first, own)
        return found

    # The loop.

    def roll(self, steps: _Steps) -> bool:
        """Call a kernel with the loop in the place of all calls, if that takes less time than they."""
        states = list(dict.fromkeys(steps.carried.values()))
        if not states or len({tuple(self.made(steps, 0, s).type.shape) for s in states}) != 1 or self.made(steps, 0, states[0]).type.rank not in (1, 2):
            return False
        initial = {}
        for (number, i), state in steps.carried.items():
            value, _ = self.path(inputs_of(steps.calls[0][number])[i])
            if initial.setdefault(state, value) != value:
                return False
        if any(initial[s].type != self.made(steps, 0, s).type for s in states):
            return False
        every = {c for each in steps.calls for c in each}
        at = steps.calls[0][-1]
        read: dict[tuple[int, int], list[tuple[int, ir.Operation]]] = {}
        for step, calls in enumerate(steps.calls):
            for number, call in enumerate(calls):
                for r, result in enumerate(call.results):
                    for user in readers(result):
                        if user in every:
                            continue
                        if (number, r) not in states or not at.is_before_in_block(user):
                            return False
                        read.setdefault((number, r), []).append((step, user))
        whole = {call: found for call in dict.fromkeys(u for users_ in read.values() for _, u in users_)
                 if (found := self.whole(call, steps, states, initial)) is not None}
        orders = {s: [order for state, order in whole.values() if state == s] for s in states if s in read}
        histories = [(s, next(iter(found), Order(True, False))) for s, found in orders.items()]
        batches = self.batches(steps)
        if batches is None:
            return False
        external = self.external(steps, batches)
        kernel = self.kernel(steps, external, batches, states, initial, histories)
        found = recurrence.candidates(recurrence.read(kernel, self.target), self.target)
        if not found or not (self.always or min(time for time, _ in found) < self.time(steps)):
            kernel.operation.erase()
            return False
        with ir.InsertionPoint(at):
            sums = [self.batch(op, factors, len(steps.calls)) for op, factors in batches.items()]
        self.replace(
            steps, kernel, [*external, *sums, *(initial[s] for s in states)], histories, [c for c, found in whole.items() if found in histories])
        return True

    def batches(self, steps: _Steps) -> dict[ir.Operation, list[ir.Value | Slices]] | None:
        """The products of the first step that wait for no state, with their factors; None where a factor is none that all steps can have together."""
        ops = [owner(self.path(inputs_of(steps.calls[0][number])[i])[0]) for number, i in sorted(steps.apart)]
        for number, call in enumerate(steps.calls[0]):
            product, given = self.product(call), inputs_of(call)
            if product is not None and not any((number, n) in steps.carried or _place(steps.calls[0], self.path(given[n])[0]) for n in product.factors):
                ops.append(call)
        begins = [self.begins(steps, n) for n in (0, 1)]
        moves, found = _moves(*begins), {}
        for op in dict.fromkeys(ops):
            factors: list[ir.Value | Slices] = []
            for n in self.product(op).factors:
                value = inputs_of(op)[n]
                root, path = self.path(value)
                moving = [x for x in path if x.name == "func.call" and any(moves.get((x, 0), ()))]
                factor = value if not moving else slices_of(self.kernels[callee(moving[0])], root, moves[moving[0], 0]) if path == moving else None
                if factor is None or _place(steps.calls[0], root) is not None:
                    return None
                factors.append(factor)
            found[op] = factors
        return found

    def external(self, steps: _Steps, batches: dict[ir.Operation, list[ir.Value | Slices]]) -> list[ir.Value]:
        """What the loop takes beside states and sums of batches."""
        found: dict[ir.Value, None] = {}

        def add(op: ir.Operation, skipped: set[int]) -> None:
            left_out = self.product(op).factors if op in batches else ()
            found.update({self.path(v)[0]: None for i, v in enumerate(inputs_of(op)) if i not in skipped and i not in left_out})

        for number, call in enumerate(steps.calls[0]):
            apart = {i for n, i in steps.apart if n == number}
            for i in apart:
                add(owner(self.path(inputs_of(call)[i])[0]), set())
            carried = {i for n, i in steps.carried if n == number}
            add(call, carried | apart | {i for i, v in enumerate(inputs_of(call)) if _place(steps.calls[0], self.path(v)[0]) is not None})
        return list(found)

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
        self, call: ir.Operation, steps: _Steps, states: list[tuple[int, int]], initial: dict[tuple[int, int], ir.Value],
    ) -> tuple[tuple[int, int], Order] | None:
        """The state of which a call puts together all there are, and in which order."""
        kernel = self.kernels.get(callee(call)) if call.name == "func.call" else None
        pieces = stacked(kernel) if kernel is not None and may_change(kernel) else None
        if pieces is None:
            return None
        given = [root_of(inputs_of(call)[n]) for n in pieces]
        for state in states:
            made = [self.made(steps, n, state) for n in range(len(steps.calls))]
            if call.results[0].type.element_type != made[0].type.element_type:
                continue
            for order in (Order(False, False), Order(True, False), Order(False, True), Order(True, True)):
                values = [initial[state], *made] if order.initial else made
                if given == (values[::-1] if order.backwards else values):
                    return state, order
        return None

    @staticmethod
    def made(steps: _Steps, step: int, state: tuple[int, int]) -> ir.Value:
        return steps.calls[step][state[0]].results[state[1]]

    def time(self, steps: _Steps) -> float:
        """Microseconds of the calls, copies of slices not counted."""
        kernels = [self.kernels[callee(c)] for c in steps.calls[0]]
        return len(steps.calls) * sum(_START + max(count_bytes(k) / _MEMORY_RATE, count_flops(k) / _FLOPS) for k in kernels)

    def kernel(
        self, steps: _Steps, external: list[ir.Value], batches: dict[ir.Operation, list[ir.Value | Slices]], states: list[tuple[int, int]],
        initial: dict[tuple[int, int], ir.Value], histories: list[tuple[tuple[int, int], Order]],
    ) -> func.FuncOp:
        """The kernel function: what the first step's calls do, in a loop."""
        count = len(steps.calls)
        types = [self.made(steps, 0, s).type for s, _ in histories]
        wholes = [ir.RankedTensorType.get([count + order.initial, *t.shape], t.element_type) for t, (_, order) in zip(types, histories)]
        before = self.kernels[callee(steps.calls[0][0])]
        name = free_name(self.module, f"steps_{callee(steps.calls[0][0])}")
        sums = [batch_type(self.product(op), count) for op in batches]
        kernel = new_kernel(self.module, before, name, [*(v.type for v in external), *sums, *(initial[s].type for s in states)], wholes)
        arguments = list(kernel.entry_block.arguments)
        known, given = dict(zip(external, arguments)), len(external) + len(sums)
        taken = dict(zip(batches, arguments[len(external):]))
        begun, destinations = arguments[given:given + len(states)], arguments[given + len(states):]
        with ir.InsertionPoint(kernel.entry_block):
            zero, one, end = (arith.constant(ir.IndexType.get(), n) for n in (0, 1, count))
            written = [
                _insert(begun[states.index(s)], d, order.place(-1, count)) if order.initial else d for (s, order), d in zip(histories, destinations)
            ]
            loop = scf.ForOp(zero, end, one, [*begun, *written])
            with ir.InsertionPoint(loop.body):
                carried = list(loop.inner_iter_args)
                made = self.body(steps, known, taken, dict(zip(states, carried)), loop.induction_variable)
                now = loop.induction_variable
                written = [_insert(made[s], d, _now(now, order, count)) for (s, order), d in zip(histories, carried[len(states):])]
                scf.yield_([*(made[s] for s in states), *written])
            func.ReturnOp(list(loop.results)[len(states):])
        return kernel

    def body(
        self, steps: _Steps, known: dict[ir.Value, ir.Value], sums: dict[ir.Operation, ir.Value], states: dict[tuple[int, int], ir.Value], step: ir.Value,
    ) -> dict[tuple[int, int], ir.Value]:
        """What the calls of the first step do, with other values; ``sums`` are those of products of all steps."""
        known, made = dict(known), {}
        begins = self.begins(steps, 0)
        inline = _Inline(self, begins, _moves(begins, self.begins(steps, 1)), sums, step)
        for number, call in enumerate(steps.calls[0]):
            values: list[ir.Value | None] = []
            for i, operand in enumerate(inputs_of(call)):
                root, path = self.path(operand)
                if (number, i) in steps.apart:
                    op = owner(root)
                    given = [inline.viewed(v, known.get(self.path(v)[0])) for v in inputs_of(op)]
                    values.append(inline.path(inline.call(op, given)[0], path))
                else:
                    values.append(inline.viewed(operand, states[steps.carried[number, i]] if (number, i) in steps.carried else known.get(root)))
            for r, (result, value) in enumerate(zip(call.results, inline.call(call, values))):
                known[result] = made[number, r] = value
        return made

    # The program.

    def replace(
        self, steps: _Steps, kernel: func.FuncOp, taken: list[ir.Value], histories: list[tuple[tuple[int, int], Order]], stacks: list[ir.Operation],
    ) -> None:
        """Call the kernel; ``stacks`` are calls that make what a history is."""
        with ir.InsertionPoint(steps.calls[0][-1]):
            wholes = list(kernel.type.results)
            call = func.CallOp(kernel, [*taken, *(tensor.EmptyOp(list(t.shape), t.element_type).result for t in wholes)]).operation
        tell_sources(call, [c for each in steps.calls[:1] for c in each])
        self.kernels[kernel.name.value] = kernel
        self.rolled.add(kernel.name.value)
        every = {c for each in steps.calls for c in each}
        slices: dict[ir.Value, tuple[ir.Value, int]] = {}
        for (state, order), whole in zip(histories, call.results):
            for step in range(len(steps.calls)):
                slices[self.made(steps, step, state)] = whole, order.place(step, len(steps.calls))
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
        for each in reversed(steps.calls):
            for old in reversed(each):
                for result in old.results:
                    for user in list(users(result)):
                        _erase_views(user)
                old.erase()
        for op in reversed(self.calls()):
            if (self.copies(op) or self.is_product(op)) and not any(True for _ in readers(op.results[0])):
                _erase_views(op)

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


@dataclass
class _Inline:
    """Clones what calls do into the loop's body."""

    roll: _Roll
    begins: dict[tuple[ir.Operation, int], tuple[int, ...]]
    moves: dict[tuple[ir.Operation, int], tuple[int, ...]]
    sums: dict[ir.Operation, ir.Value]
    step: ir.Value

    def viewed(self, value: ir.Value, root: ir.Value | None) -> ir.Value | None:
        """What a value is where ``root`` is what it is read of; nothing where that is not known, and a product of all steps reads it."""
        return None if root is None else self.path(root, self.roll.path(value)[1])

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
        copies, sums = self.roll.copies(call), self.sums.get(call)
        product = self.roll.product(call) if sums is not None else None
        function = self.roll.kernels[callee(call)] if product is None else product.function
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


def _moves(a: dict, b: dict) -> dict[tuple[ir.Operation, int], tuple[int, ...]]:
    """How much further slices begin."""
    return {key: tuple(y - x for x, y in zip(begin, b[key])) for key, begin in a.items()}


def _place(calls: Sequence[ir.Operation], value: ir.Value) -> tuple[int, int] | None:
    """Of which call a value is which result."""
    return next(((n, r) for n, c in enumerate(calls) for r, result in enumerate(c.results) if result == value), None)


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


def _viewed(value: ir.Value, root: ir.Value) -> ir.Value:
    """The same view of another root."""
    op = owner(value)
    if op is None or op.name not in VIEWS:
        return root
    clone = op.clone()
    clone.operands[0] = _viewed(op.operands[0], root)
    return clone.results[0]


def _erase_views(op: ir.Operation) -> None:
    for user in list(users(op.results[0])):
        _erase_views(user)
    op.erase()
