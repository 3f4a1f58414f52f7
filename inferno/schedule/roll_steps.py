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
from inferno.schedule.cost import count_bytes, count_flops
from inferno.schedule.merge_calls import erase_unused, free_name, inputs_of, may_change, new_kernel, operations_in, tell_sources
from inferno.schedule.pointwise import parse_pointwise
from inferno.schedule.stacks import join_pieces, position, read_elements, reshaped, stacked
from inferno.target import Target, find_target

# Microseconds of a kernel of a step, bytes that it moves in one, and operations: a small product on CUDA cores (H100, LSTM of 8x64x512 in float32: four kernels a
# step, 8 us).
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
    """Calls of each step, in the same order.  ``carried``: of a call and operand by number, the call and result of the step before that it reads."""

    calls: list[list[ir.Operation]]
    carried: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)


class _Roll:
    def __init__(self, module: ir.Module, main: func.FuncOp, kernels: dict[str, func.FuncOp], target: Target, always: bool) -> None:
        self.module, self.main, self.kernels, self.target, self.always = module, main, kernels, target, always
        self.texts: dict[str, tuple[str, Offsets]] = {}
        self.sums: dict[str, int] = {}
        self.maps: dict[str, bool] = {}

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
                if user not in behind and self.is_map(user) and len(behind) < 16:
                    behind[user] = set()
                    pending.append(user)
        return None

    def following(self, steps: _Steps) -> list[ir.Operation] | None:
        """The next step, if there is one that is equal."""
        before, found = steps.calls[-1], []
        carried = dict(steps.carried)
        for number, template in enumerate(before):
            if number == 0:
                made = [c.results[0] for c in before]
            else:
                made = [c.results[0] for c in found]
            candidates = [u for v in made for u in dict.fromkeys(readers(v)) if u.name == "func.call" and u not in before and u not in found]
            match = next((u for u in candidates if self.alike(template, u) and self.fits(steps, before, found, template, u, number, carried)), None)
            if match is None:
                return None
            found.append(match)
        if len(steps.calls) > 1 and carried != steps.carried:
            return None
        steps.carried = carried
        return found

    def fits(
        self, steps: _Steps, before: list[ir.Operation], found: list[ir.Operation], template: ir.Operation, call: ir.Operation, number: int,
        carried: dict[tuple[int, int], tuple[int, int]],
    ) -> bool:
        """Whether a call reads of its step, and of the one before, what ``template`` does."""
        taken: dict[tuple[int, int], tuple[int, int]] = {}
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
                return False
        if len(steps.calls) > 1 and taken != {key: v for key, v in steps.carried.items() if key[0] == number}:
            return False
        carried.update(taken)
        return True

    def same_view(self, a: ir.Operation, b: ir.Operation) -> bool:
        if a.name != b.name or a.results[0].type != b.results[0].type or a.operands[0].type != b.operands[0].type:
            return False
        return self.alike(a, b) if a.name == "func.call" else True

    def moves_evenly(self, steps: _Steps) -> bool:
        """Whether all slices move by as much in each step; otherwise steps behind the first uneven one are left out."""
        count = next((i for i in range(2, len(steps.calls)) if any(
            [y - x for x, y in zip(a, b)] != [y - x for x, y in zip(first, second)]
            for first, second, a, b in zip(*(self.begins(steps.calls[n]) for n in (0, 1, i - 1, i)))
        )), len(steps.calls))
        del steps.calls[count:]
        return count >= _LEAST

    def begins(self, calls: Sequence[ir.Operation]) -> Offsets:
        """Where all slices of a step begin."""
        found: Offsets = []
        for call in calls:
            for v in inputs_of(call):
                for op in self.path(v)[1]:
                    if op.name == "func.call":
                        found += self.text(callee(op))[1]
            found += self.text(callee(call))[1]
        return found

    # The loop.

    def roll(self, steps: _Steps) -> bool:
        """Call a kernel with the loop in the place of all calls, if that takes less time than they."""
        states = list(dict.fromkeys(steps.carried.values()))
        if not states or len({tuple(self.made(steps, 0, s).type.shape) for s in states}) != 1 or self.made(steps, 0, states[0]).type.rank not in (1, 2):
            return False
        initial = {}
        for (number, i), state in steps.carried.items():
            value, path = self.path(inputs_of(steps.calls[0][number])[i])
            if path and value.type != self.made(steps, 0, state).type or initial.setdefault(state, value) != value:
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
        begins = {s: not any(found == (s, False) for found in whole.values()) or (s, True) in whole.values() for s in states if s in read}
        histories = list(begins.items())
        external = list(dict.fromkeys(
            v for number, call in enumerate(steps.calls[0]) for i, operand in enumerate(inputs_of(call))
            if (number, i) not in steps.carried and (v := self.path(operand)[0]) is not None and _place(steps.calls[0], v) is None
        ))
        kernel = self.kernel(steps, external, states, initial, histories)
        schedule = recurrence.read(kernel, self.target)
        found = recurrence.candidates(schedule, self.target) if schedule is not None else []
        if not found or not (self.always or min(time for time, _ in found) < self.time(steps)):
            kernel.operation.erase()
            return False
        self.replace(steps, kernel, [*external, *(initial[s] for s in states)], histories, [c for c, found in whole.items() if found in histories])
        return True

    def whole(
        self, call: ir.Operation, steps: _Steps, states: list[tuple[int, int]], initial: dict[tuple[int, int], ir.Value],
    ) -> tuple[tuple[int, int], bool] | None:
        """The state of which a call puts together all there are, in order, and whether that is with the initial one."""
        kernel = self.kernels.get(callee(call)) if call.name == "func.call" else None
        pieces = stacked(kernel) if kernel is not None and may_change(kernel) else None
        if pieces is None:
            return None
        given = [root_of(inputs_of(call)[n]) for n in pieces]
        for state in states:
            made = [self.made(steps, n, state) for n in range(len(steps.calls))]
            if call.results[0].type.element_type != made[0].type.element_type:
                continue
            if given in (made, [initial[state], *made]):
                return state, len(given) > len(made)
        return None

    @staticmethod
    def made(steps: _Steps, step: int, state: tuple[int, int]) -> ir.Value:
        return steps.calls[step][state[0]].results[state[1]]

    def time(self, steps: _Steps) -> float:
        """Microseconds of the calls, copies of slices not counted."""
        kernels = [self.kernels[callee(c)] for c in steps.calls[0]]
        return len(steps.calls) * sum(_START + max(count_bytes(k) / _MEMORY_RATE, count_flops(k) / _FLOPS) for k in kernels)

    def kernel(
        self, steps: _Steps, external: list[ir.Value], states: list[tuple[int, int]], initial: dict[tuple[int, int], ir.Value],
        histories: list[tuple[tuple[int, int], bool]],
    ) -> func.FuncOp:
        """The kernel function: what the first step's calls do, in a loop."""
        count = len(steps.calls)
        types = [self.made(steps, 0, s).type for s, _ in histories]
        wholes = [ir.RankedTensorType.get([count + begins, *t.shape], t.element_type) for t, (_, begins) in zip(types, histories)]
        before = self.kernels[callee(steps.calls[0][0])]
        name = free_name(self.module, f"steps_{callee(steps.calls[0][0])}")
        kernel = new_kernel(self.module, before, name, [*(v.type for v in external), *(initial[s].type for s in states)], wholes)
        arguments = list(kernel.entry_block.arguments)
        known = dict(zip(external, arguments))
        begun, destinations = arguments[len(external):len(external) + len(states)], arguments[len(external) + len(states):]
        with ir.InsertionPoint(kernel.entry_block):
            zero, one, end = (arith.constant(ir.IndexType.get(), n) for n in (0, 1, count))
            written = [_insert(begun[states.index(s)], d, 0) if begins else d for (s, begins), d in zip(histories, destinations)]
            loop = scf.ForOp(zero, end, one, [*begun, *written])
            with ir.InsertionPoint(loop.body):
                carried = list(loop.inner_iter_args)
                made = self.body(steps, known, dict(zip(states, carried)), loop.induction_variable)
                now = loop.induction_variable
                written = [_insert(made[s], d, arith.addi(now, one) if begins else now) for (s, begins), d in zip(histories, carried[len(states):])]
                scf.yield_([*(made[s] for s in states), *written])
            func.ReturnOp(list(loop.results)[len(states):])
        return kernel

    def body(
        self, steps: _Steps, known: dict[ir.Value, ir.Value], states: dict[tuple[int, int], ir.Value], step: ir.Value,
    ) -> dict[tuple[int, int], ir.Value]:
        """What the calls of the first step do, with other values."""
        known, made = dict(known), {}
        moves = [[tuple(y - x for x, y in zip(a, b)), a] for a, b in zip(*(self.begins(c) for c in steps.calls[:2]))]
        for number, call in enumerate(steps.calls[0]):
            values = []
            for i, operand in enumerate(inputs_of(call)):
                value, path = self.path(operand)
                value = states[steps.carried[number, i]] if (number, i) in steps.carried else known[value]
                for op in reversed(path):
                    if op.name == "func.call":
                        value = self.inline(op, [value], moves, step, copies=True)[0]
                        continue
                    clone = op.clone()
                    clone.operands[0] = value
                    value = clone.results[0]
                values.append(value)
            values += [tensor.EmptyOp(list(r.type.shape), r.type.element_type).result for r in call.results]
            for r, (result, value) in enumerate(zip(call.results, self.inline(call, values, moves, step))):
                known[result] = made[number, r] = value
        return made

    def inline(self, call: ir.Operation, values: list[ir.Value], moves: list, step: ir.Value, copies: bool = False) -> list[ir.Value]:
        """Clone a kernel's operations; of a copy what it copies."""
        here = dict(zip(self.kernels[callee(call)].entry_block.arguments, values))
        for op in operations_in(self.kernels[callee(call)]):
            if op.name == "func.return":
                return [here[v] for v in op.operands]
            if op.name == "tensor.extract_slice":
                here[op.results[0]] = _slice(op, here[op.operands[0]], *moves.pop(0), step)
            elif op.name == "linalg.copy" and copies:
                here[op.results[0]] = here[op.operands[0]]
            else:
                clone_onto(op, here)
        raise AssertionError("a kernel returns")

    # The program.

    def replace(
        self, steps: _Steps, kernel: func.FuncOp, taken: list[ir.Value], histories: list[tuple[tuple[int, int], bool]], stacks: list[ir.Operation],
    ) -> None:
        """Call the kernel; ``stacks`` are calls that make what a history is."""
        with ir.InsertionPoint(steps.calls[0][-1]):
            wholes = list(kernel.type.results)
            call = func.CallOp(kernel, [*taken, *(tensor.EmptyOp(list(t.shape), t.element_type).result for t in wholes)]).operation
        tell_sources(call, [c for each in steps.calls[:1] for c in each])
        self.kernels[kernel.name.value] = kernel
        every = {c for each in steps.calls for c in each}
        slices: dict[ir.Value, tuple[ir.Value, int]] = {}
        for (state, begins), whole in zip(histories, call.results):
            for step in range(len(steps.calls)):
                slices[self.made(steps, step, state)] = whole, step + begins
        for stack in stacks:
            whole, result = slices[root_of(inputs_of(stack)[-1])][0], stack.results[0]
            with ir.InsertionPoint.after(call):
                whole = reshaped(whole, result.type)
            result.replace_all_uses_with(whole)
            stack.erase()
        for user in dict.fromkeys(u for v in slices for u in readers(v) if u not in every):
            if user.name == "func.call" and callee(user) in self.kernels and may_change(self.kernels[callee(user)]):
                self.read_slices(user, slices)
        for value, (whole, place) in slices.items():
            if any(u not in every for u in readers(value)):
                self.copy(value, whole, place, call)
        for each in reversed(steps.calls):
            for old in reversed(each):
                for result in old.results:
                    for user in list(users(result)):
                        _erase_views(user)
                old.erase()
        for op in self.calls():
            if self.copies(op) and not any(True for _ in readers(op.results[0])):
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


def _place(calls: Sequence[ir.Operation], value: ir.Value) -> tuple[int, int] | None:
    """Of which call a value is which result."""
    return next(((n, r) for n, c in enumerate(calls) for r, result in enumerate(c.results) if result == value), None)


def _insert(value: ir.Value, into: ir.Value, at: ir.Value | int) -> ir.Value:
    """A state in its history."""
    shape, varying = list(value.type.shape), [at] if isinstance(at, ir.Value) else []
    begin = ir.ShapedType.get_dynamic_size() if varying else at
    return tensor.InsertSliceOp(value, into, varying, [], [], [begin, *[0] * len(shape)], [1, *shape], [1] * (len(shape) + 1)).result


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
