"""A launch plan run by Python: the same function of the same state as ``host``'s native code, where there is no compiler.

The launches' configurations and parameters are laid out once (see ``parameters``), so a call writes the addresses and then calls
the driver once a launch: 0.7 us each, the driver's own time apart (300 launches of 4 parameters, one EPYC core).
"""

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

from inferno.runtime.launch.cublaslt import MatmulCall
from inferno.runtime.launch.host import ERROR, STEP, STREAM, attribute_of
from inferno.runtime.launch.parameters import Layout, Parameters, encoder
from inferno.runtime.plan.plan import LibraryCall, Plan, at_sizes
from inferno.runtime.plan.data import check_plan


class Config(ctypes.Structure):
    """CUlaunchConfig, as cuda.h has it."""

    _fields_ = [
        *((n, ctypes.c_uint) for n in ("gx", "gy", "gz", "bx", "by", "bz", "shared")), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    ]


_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
_KEPT = 16  # sizes of a plan whose launches are kept; making them again takes some 20 us a launch


def interpreter(
    plan: Plan, functions: Sequence[int | MatmulCall], launch: int, encode: int, result_words: dict[int, int], early: bool, pixels: int = 0,
) -> Callable[[int], None]:
    """The function of a state's address that launches every kernel of the plan; takes what ``host_program`` takes."""
    return _Interpreter(Layout(plan, result_words), functions, _LAUNCH(launch), encoder(encode, pixels), early).run


def sized_interpreter(
    plan: Plan, functions: Sequence[int | MatmulCall], launch: int, encode: int, result_words: dict[int, int], early: bool, pixels: int = 0,
) -> Callable[[tuple[int, ...]], Callable[[int], None]]:
    """For a plan whose sizes vary: the function of the symbols' values that gives ``interpreter``'s.

    A launch of no blocks is none.  The plan may come from a file, so its numbers are checked for each of the sizes: PlanError.
    """
    names = [s.name for s in plan.symbols]
    entries = _LAUNCH(launch), encoder(encode, pixels)
    kept: OrderedDict[tuple[int, ...], Callable[[int], None]] = OrderedDict()

    def at(values: tuple[int, ...]) -> Callable[[int], None]:
        found = kept.pop(values, None)
        if found is None:
            fixed = at_sizes(plan, dict(zip(names, values)))
            numbers = [i for i, step in enumerate(fixed.steps) if isinstance(step, LibraryCall) or 0 not in step.grid]
            fixed = replace(fixed, steps=tuple(fixed.steps[i] for i in numbers))
            check_plan(fixed)
            found = _Interpreter(Layout(fixed, result_words), [functions[i] for i in numbers], *entries, early, numbers).run
        kept[values] = found  # the one used last is the last; each step is atomic, and two threads may both make one
        while len(kept) > _KEPT:
            try:
                kept.popitem(last=False)
            except KeyError:
                break
        return found

    return at


class _Interpreter:
    def __init__(
        self, layout: Layout, functions: Sequence[int | MatmulCall], launch: Callable, encode: Callable, early: bool, numbers: Sequence[int] | None = None,
    ) -> None:
        """``numbers``: what the steps are called where one fails."""
        self._numbers = range(len(functions)) if numbers is None else numbers
        self.layout, self.functions, self.early = layout, functions, early
        self.launch, self._encode = launch, encode
        self._state = ctypes.c_int64 * layout.words
        self._contexts: list[_Context] = []  # free ones; append and pop are atomic

    def run(self, base: int) -> None:
        """Launch everything on the stream of the state at ``base``; what fails leaves its code and step there."""
        try:
            context = self._contexts.pop()
        except IndexError:
            context = _Context(self)
        state = self._state.from_address(base)
        context.values[:] = context.read(state)
        error, step = context.make_maps(self._encode)
        if not error:
            stream = state[STREAM]
            if stream != context.stream:
                context.set_stream(stream)
            for step, (function, *arguments) in enumerate(context.launches):  # noqa: B007
                error = function(*arguments)
                if error:
                    break
        if error:
            state[ERROR], state[STEP] = error, self._numbers[step]
        self._contexts.append(context)


class _Context(Parameters):
    """What one call at a time uses: the values of the parameters, and the launches that point to them."""

    def __init__(self, owner: _Interpreter) -> None:
        super().__init__(owner.layout)
        self.stream = 0
        self._attributes: list[ctypes.Array] = []
        self._configs: list[Config] = []
        self.launches: list[tuple] = []
        steps = owner.layout.steps
        for number, (step, function, pointers) in enumerate(zip(steps, owner.functions, self.pointers)):
            if isinstance(step, LibraryCall):
                self.launches.append((self._call, function, owner.layout.positions(step)))
                continue
            how = attribute_of(steps, number, owner.early)
            self._attributes.append((ctypes.c_uint64 * 9)(how, 1))
            config = Config(*step.grid, *step.block, step.shared, 0, ctypes.addressof(self._attributes[-1]), int(how != 0))
            self._configs.append(config)
            self.launches.append((owner.launch, ctypes.addressof(config), function, pointers, None))

    def _call(self, call: MatmulCall, positions: Sequence[int]) -> int:
        return call.run([self.values[p] for p in positions], self.stream)

    def set_stream(self, stream: int) -> None:
        self.stream = stream
        for config in self._configs:
            config.stream = stream


__all__ = ["Config", "interpreter", "sized_interpreter"]
