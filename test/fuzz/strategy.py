"""Draws random programs.  Every line is run as it is drawn, so that a program is one that eager runs, with numbers of moderate size.

A value is ``exact`` where every right implementation has the same bits: inputs, what only moves or selects them, and integers.
What jumps (comparisons, roundings to integers, argmax, sort) reads exact values alone: elsewhere a last bit decides, and the
float64 reference need not agree with anybody.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor

from fuzz.programs import ALL_DTYPES, FLOATS, LAYOUTS, Input, Line, Program

SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 64, 67)
LONG = (256, 1000, 1031, 2048, 4100)
MOST_ELEMENTS = 20_000
MOST_OUTPUTS = 8
LARGEST = 200.0  # numbers stay below, so that float16 does not overflow in one implementation and not in another


@dataclass
class State:
    """What has been drawn so far: values by name, and which are exact."""

    draw: Callable
    sizes: list[int]
    seed: int = 0
    inputs: list[Input] = field(default_factory=list)
    values: dict[str, Tensor] = field(default_factory=dict)
    exact: dict[str, bool] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    changed: bool = False
    varies: bool = False  # whether sizes may depend on values

    def pick(self, test: Callable[[str], bool] = lambda n: True) -> str | None:
        found = [n for n in self.values if test(n)]
        return self.draw(st.sampled_from(found + 2 * found[-2:])) if found else None  # chains, rather than bushes

    def one(self, *of):
        return self.draw(st.sampled_from(of))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.values[name].shape)

    def is_float(self, name: str) -> bool:
        return self.values[name].is_floating_point()

    def is_integer(self, name: str) -> bool:
        return self.values[name].dtype in (torch.int64, torch.int32)

    def is_bool(self, name: str) -> bool:
        return self.values[name].dtype is torch.bool

    def short(self, name: str) -> str:
        return next(k for k, d in ALL_DTYPES.items() if d is self.values[name].dtype)

    def emit(self, text: str, used: tuple[str, ...], exact: bool | None = None, count: int = 1) -> bool:
        """Add ``v = text`` if it runs and gives numbers of moderate size.  Whether it did."""
        scope = {"torch": torch, "F": F, "inf": math.inf, **ALL_DTYPES, **self.values}
        try:
            result = eval(text, scope)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            return False
        results = [result] if isinstance(result, Tensor) else list(result)
        if len(results) != count or not all(map(self._moderate, results)):
            return False
        made = tuple(f"v{len(self.values) + i}" for i in range(count))
        self.lines.append(Line(f"{', '.join(made)} = {text}", made, used))
        for name, value in zip(made, results):
            self.values[name] = value
            certain = all(self.exact[u] for u in used) if exact is None else exact and all(self.exact[u] for u in used)
            self.exact[name] = certain or not (value.is_floating_point() or value.is_complex())
        return True

    def emit_change(self, text: str, changed: str, used: tuple[str, ...], exact: bool) -> bool:
        """Add a statement that changes ``changed`` in place, if it runs and the values stay moderate; not what is one element in
        several places, of which eager refuses most changes."""
        if any(n > 1 and step == 0 for n, step in zip(self.values[changed].shape, self.values[changed].stride())):
            return False
        before = {n: v.clone() for n, v in self.values.items()}
        scope = {"torch": torch, "F": F, "inf": math.inf, **ALL_DTYPES, **self.values}
        try:
            exec(text, scope)
            right = all(map(self._moderate, self.values.values()))
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            right = False
        if not right:
            for name, value in before.items():
                if not torch.equal(value.nan_to_num(), self.values[name].nan_to_num()):
                    self.values[name].copy_(value)
            return False
        self.lines.append(Line(text, (), (changed, *(u for u in used if u != changed))))
        if not (exact and all(self.exact[u] for u in (changed, *used))):
            storage = self.values[changed].untyped_storage().data_ptr()
            for name, value in self.values.items():
                if value.untyped_storage().data_ptr() == storage and value.is_floating_point():
                    self.exact[name] = False
        return True

    @staticmethod
    def _moderate(value: Tensor) -> bool:
        if value.numel() > MOST_ELEMENTS or value.dim() > 5 or value.dtype not in ALL_DTYPES.values():
            return False
        if not value.is_floating_point() or not value.numel():
            return True
        return bool(value.isfinite().all()) and value.abs().max().item() <= LARGEST


def add_input(state: State) -> None:
    rank = state.one(0, 1, 1, 2, 2, 2, 3, 3, 3, 4)
    shape = tuple(state.draw(st.sampled_from(state.sizes)) for _ in range(rank))
    while math.prod(shape) > MOST_ELEMENTS:
        shape = shape[1:]
    dtype = state.one("f32", "f32", "f32", "f16", "bf16", "f64", "i64", "i32", "b1")
    name = f"x{len(state.inputs)}"
    one = Input(name, shape, dtype, state.one("contiguous", "contiguous", "contiguous", *LAYOUTS[1:]))
    state.inputs.append(one)


@st.composite
def programs(draw, most_lines: int = 10, long: bool = False) -> Program:
    """A program of up to ``most_lines`` lines; with ``long`` one of its sizes is large.

    Its outputs are what no line reads, and now and then something else, or an input."""
    from fuzz import further_operations, operations

    sizes = draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3))
    if long:
        sizes.append(draw(st.sampled_from(LONG)))
    if draw(st.integers(0, 11)) == 11:
        sizes.append(0)
    all_of = operations.OPERATIONS + further_operations.OPERATIONS
    state = State(draw, sizes, draw(st.integers(0, 999)))
    for _ in range(draw(st.integers(1, 3))):
        add_input(state)
    program = Program(tuple(state.inputs), (), (), state.seed)
    for one, value in zip(state.inputs, program.make_inputs()):
        state.values[one.name], state.exact[one.name] = value, True
    for _ in range(draw(st.integers(max(2, most_lines // 3), most_lines))):
        for _ in range(6):  # most operations do not fit most values
            before = len(state.lines)
            draw(st.sampled_from(all_of))(state)
            if len(state.lines) > before:
                break
    made = [n for line in state.lines for n in line.made] or list(state.values)
    last = [n for n in made if not any(n in line.used for line in state.lines)] or made[-1:]
    outputs = last[-MOST_OUTPUTS:]
    if draw(st.integers(0, 2)) == 0:
        outputs.append(draw(st.sampled_from(sorted(state.values))))
    return Program(tuple(state.inputs), tuple(state.lines), tuple(outputs), state.seed).cut()


def floats_of(program: Program) -> set[str]:
    """The floating-point dtypes that a program has in its inputs and casts."""
    text = " ".join(line.text for line in program.lines)
    return {i.dtype for i in program.inputs if i.dtype in FLOATS} | {n for n in FLOATS if n in text}
