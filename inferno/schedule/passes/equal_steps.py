"""Find calls of ``@main`` that are equal steps, each of which begins with a product of the step before's result."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from inferno.mlir import ir, owner
from inferno.passes.generics import is_reduction
from inferno.passes.programs import VIEWS, anonymous, callee, operations_in, readers, root_of
from inferno.schedule.maps.pointwise import parse_pointwise
from inferno.schedule.passes.batch_products import Product, take_apart
from inferno.schedule.passes.calls import inputs_of, may_change
from inferno.schedule.passes.rewrite import Rewrite

_LEAST = 3  # steps
_LONGEST = 16  # calls of a step
_SLICE = re.compile(r"(tensor\.extract_slice %[\w#]+)\[([-\d, ]+)\]")

Begins = dict[tuple[ir.Operation, int], tuple[int, ...]]
"""Where slices begin, or by how much further, by the operation of the first step that has them, and which of its slices they are."""
Path = list[ir.Operation]
"""Views, and calls that copy a slice, between a value and what it is read of."""


State = tuple[int, int]
"""Of a step a call and its result, by numbers."""


@dataclass
class Steps:
    """Calls of each step, in the same order.  ``carried``: of a call and operand by number, the state of the step before that it reads;
    ``apart``: operands that products make which wait for no step, of slices that move.  ``zeros``: the states of a step in front, which other calls make, and
    which is the same where its states are zeros."""

    calls: list[list[ir.Operation]]
    carried: dict[tuple[int, int], State] = field(default_factory=dict)
    apart: set[tuple[int, int]] = field(default_factory=set)
    zeros: dict[State, ir.Value] = field(default_factory=dict)

    @property
    def ahead(self) -> int:
        """Steps in front of those of the calls."""
        return int(bool(self.zeros))

    @property
    def count(self) -> int:
        return len(self.calls) + self.ahead

    def made(self, step: int, state: State) -> ir.Value:
        """What a step makes."""
        return self.zeros[state] if step < self.ahead else self.calls[step - self.ahead][state[0]].results[state[1]]


@dataclass
class EqualSteps(Rewrite):
    """Finds steps among the calls of ``@main``.  What was found of kernels is kept by their names."""

    texts: dict[str, tuple[str, list[tuple[int, ...]]]] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)
    maps: dict[str, bool] = field(default_factory=dict)
    slices: dict[str, bool] = field(default_factory=dict)
    products: dict[str, Product | None] = field(default_factory=dict)

    # Kernels.

    def is_product(self, call: ir.Operation) -> bool:
        """Whether a call's kernel has one contraction, and one result."""
        name = callee(call)
        if name not in self.sums:
            kernel = self.kernels.get(name)
            ops = operations_in(kernel) if kernel is not None and may_change(kernel) else []
            self.sums[name] = sum(is_reduction(op) for op in ops)
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
        if op.name != "func.call":
            return False
        name = callee(op)
        if name not in self.slices:
            kernel = self.kernels.get(name)
            ops = operations_in(kernel) if kernel is not None and may_change(kernel) else []
            names = [o.name for o in ops if o.name not in (*VIEWS, "arith.constant", "func.return")]
            self.slices[name] = names == ["tensor.extract_slice", "linalg.copy"]
        return self.slices[name]

    def text(self, name: str) -> tuple[str, list[tuple[int, ...]]]:
        """A kernel without its name and without where its slices begin; and that."""
        if name not in self.texts:
            text = anonymous(self.kernels[name])
            offsets = [tuple(int(n) for n in found[1].split(",")) for found in _SLICE.findall(text)]
            self.texts[name] = _SLICE.sub(r"\1[]", text), offsets
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

    def steps_from(self, first: ir.Operation) -> Steps | None:
        """Steps of which the first one begins with this product."""
        start = self.first_step(first)
        if start is None:
            return None
        steps = Steps([start])
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
                if user not in behind and (self.is_map(user) or self.ends(user, op.results[0])) and len(behind) < _LONGEST:
                    behind[user] = set()
                    pending.append(user)
        return None

    def following(self, steps: Steps) -> list[ir.Operation] | None:
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
        self, steps: Steps, before: list[ir.Operation], found: list[ir.Operation], template: ir.Operation, call: ir.Operation, number: int,
        carried: dict[tuple[int, int], tuple[int, int]], apart: set[tuple[int, int]],
    ) -> bool:
        """Whether a call reads of its step, and of the one before, what ``template`` does."""
        taken: dict[tuple[int, int], tuple[int, int]] = {}
        alone: set[tuple[int, int]] = set()
        for i, (a, b) in enumerate(zip(inputs_of(template), inputs_of(call))):
            (from_a, path_a), (from_b, path_b) = self.path(a), self.path(b)
            place = place_of(before, from_a)
            # (The state in front of all steps may be a view of anything.)
            free = len(steps.calls) == 1 and place is None and not path_b and place_of(before, from_b) is not None
            if a.type != b.type or not (free or (len(path_a) == len(path_b) and all(map(self.same_view, path_a, path_b)))):
                return False
            if place is not None:
                if place[0] >= len(found) or found[place[0]].results[place[1]] != from_b:
                    return False
            elif (of_before := place_of(before, from_b)) is not None:
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

    def moves_evenly(self, steps: Steps) -> bool:
        """Whether all slices move by as much in each step; otherwise steps behind the first uneven one are left out."""
        begins = [self.begins(steps, n) for n in range(len(steps.calls))]
        moves = [moves_of(a, b) for a, b in zip(begins, begins[1:])]
        count = next((i for i, each in enumerate(moves) if each != moves[0]), len(moves)) + 1
        del steps.calls[count:]
        return count >= _LEAST

    def begins(self, steps: Steps, step: int) -> Begins:
        """Where the slices of some step's calls begin."""
        found: Begins = {}

        def add(first: ir.Operation, own: ir.Operation) -> None:
            found.update({(first, k): offsets for k, offsets in enumerate(self.text(callee(own))[1])})

        def add_path(a: ir.Value, b: ir.Value) -> None:
            for x, y in zip(self.path(a)[1], self.path(b)[1]):
                if x.name == "func.call":
                    add(x, y)

        for number, (first, own) in enumerate(zip(steps.calls[0], steps.calls[step])):
            for i, (a, b) in enumerate(zip(inputs_of(first), inputs_of(own))):
                if (number, i) not in steps.carried or self.state_path(steps, number, i):
                    add_path(a, b)
                if (number, i) in steps.apart:
                    x, y = (owner(self.path(v)[0]) for v in (a, b))
                    for v, w in zip(inputs_of(x), inputs_of(y)):
                        add_path(v, w)
                    add(x, y)
            add(first, own)
        return found

    def initial(self, steps: Steps) -> dict[State, ir.Value] | None:
        """The states that the first step reads; None where it reads several in the place of one."""
        found: dict[State, ir.Value] = {}
        for (number, i), state in steps.carried.items():
            value = inputs_of(steps.calls[0][number])[i]
            value = self.path(value)[0] if self.state_path(steps, number, i) else value
            if found.setdefault(state, value) != value or value.type != steps.calls[0][state[0]].results[state[1]].type:
                return None
        return found

    def state_path(self, steps: Steps, number: int, i: int) -> Path:
        """By which views an operand reads a state."""
        return self.path(inputs_of(steps.calls[0][number])[i])[1] if self.path(inputs_of(steps.calls[1][number])[i])[1] else []

    def moving(self, steps: Steps) -> tuple[Begins, Begins]:
        """Where the slices of the first step of all begin, and by how much further in each step."""
        begins = self.begins(steps, 0)
        moves = moves_of(begins, self.begins(steps, 1))
        return {key: tuple(x - steps.ahead * y for x, y in zip(begin, moves[key])) for key, begin in begins.items()}, moves

    def external(self, steps: Steps, batches: Collection[ir.Operation] = ()) -> list[ir.Value]:
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
            add(call, carried | apart | {i for i, v in enumerate(inputs_of(call)) if place_of(steps.calls[0], self.path(v)[0]) is not None})
        return list(found)


def moves_of(a: Begins, b: Begins) -> Begins:
    """How much further slices begin."""
    return {key: tuple(y - x for x, y in zip(begin, b[key])) for key, begin in a.items()}


def place_of(calls: Sequence[ir.Operation], value: ir.Value) -> tuple[int, int] | None:
    """Of which call a value is which result."""
    return next(((n, r) for n, c in enumerate(calls) for r, result in enumerate(c.results) if result == value), None)
