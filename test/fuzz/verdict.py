"""Is the compiled program right?  The project's rule, and what it says of programs whose results are few numbers.

The rule holds a result's error against eager's own.  Where a result is a single number, eager's error is luck: by chance it is
exact.  So a program that fails the rule on one draw of the inputs is asked again on many draws, whose squares are summed as if they
were one larger result; and eager's own error is also taken of eager with its roundings perturbed by half a unit in the last
place, which is what eager would have been with sums in another order (for float64, which is its own reference, it is
float32's error, scaled).  What is wrong stays wrong in that: its error is no rounding.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fuzz.programs import DTYPES, FLOATS, Program, as_wide
from inferno.runtime.check.isolation import Isolated
from inferno.runtime.check.perturbation import FLOAT64_TO_FLOAT32, Perturbed

DRAWS = 24


@dataclass(frozen=True)
class Verdict:
    """``kind``: right, wrong, refused (an error that says what is not supported), crash."""

    kind: str
    text: str = ""


def copies(tensors: tuple[Tensor, ...], device: str = "cpu") -> tuple[Tensor, ...]:
    """Copies in the same layouts."""
    made = []
    for t in tensors:
        room = torch.empty(t.untyped_storage().nbytes() // t.element_size(), dtype=t.dtype, device=device)
        room.copy_(torch.as_strided(t, room.shape, (1,), 0))
        made.append(torch.as_strided(room, t.shape, t.stride(), t.storage_offset()))
    return tuple(made)


def with_gradients(function: Callable) -> Callable:
    """The function's results, followed by the gradients of a weighted sum of them by each floating-point input."""

    def differentiated(*inputs: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            leaves = [t.detach().clone().requires_grad_() if t.is_floating_point() else t for t in inputs]
            results = function(*(t.clone() if t.is_floating_point() else t for t in leaves))
            ends = [r for r in results if r.requires_grad]
            wanted = [t for t in leaves if t.requires_grad]
            weights = [torch.arange(r.numel(), device=r.device).remainder(7).sub(3).reshape(r.shape).to(r.dtype) for r in ends]
            found = torch.autograd.grad(ends, wanted, weights, allow_unused=True) if ends and wanted else [None] * len(wanted)
        return (*(r.detach() for r in results), *(torch.zeros_like(t) if g is None else g for g, t in zip(found, wanted)))

    return differentiated


def run(function: Callable, inputs: tuple[Tensor, ...], device: str = "cpu") -> tuple[Tensor, ...]:
    """The results, and the inputs as the call leaves them."""
    given = copies(inputs, device)
    with torch.no_grad():
        results = function(*given)
    return tuple(t.detach().cpu() for t in (*results, *given))


def run_in(program: Program, inputs: tuple[Tensor, ...], dtype: torch.dtype, wrap: Callable = lambda f: f) -> tuple[Tensor, ...]:
    """The results in another floating-point type."""
    given = tuple(t.clone().to(as_wide(t.dtype, dtype)) for t in copies(inputs))
    with torch.no_grad(), Isolated(dtype) as mode:
        results = wrap(program.function(dtype))(*given)
    return tuple(mode.read(t) for t in (*results, *given))


def _reals(x: Tensor) -> Tensor:
    """Complex numbers as pairs."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


@dataclass
class _Sums:
    """Squares of one result's reference and errors, over draws."""

    reference: float = 0.0
    ours: float = 0.0
    eager: float = 0.0

    def add(self, ours: Tensor, eager: Tensor, exact: Tensor) -> None:
        ours, eager, exact = map(_reals, (ours, eager, exact))
        finite = eager.isfinite() & exact.isfinite()
        e = exact[finite].double()
        self.reference += (e**2).sum().item()
        self.ours += ((ours[finite].double() - e) ** 2).sum().item()
        self.eager += ((eager[finite].double() - e) ** 2).sum().item()

    def add_eager(self, eager: Tensor, exact: Tensor) -> float:
        eager, exact = _reals(eager), _reals(exact)
        finite = eager.isfinite() & exact.isfinite()
        return ((eager[finite].double() - exact[finite].double()) ** 2).sum().item()

    @property
    def scale(self) -> float:
        return math.sqrt(self.reference) or 1.0


def unit_of(program: Program, dtype: torch.dtype) -> float:
    """The rounding unit of the arithmetic: of the coarsest dtype that the program computes in, or the result's."""
    from fuzz.strategy import floats_of

    return max([torch.finfo(dtype).eps, *(torch.finfo(DTYPES[n]).eps for n in floats_of(program))])


def judge(program: Program, compile_: Callable, device: str = "cpu", gradients: bool = False) -> Verdict:
    """Compile the program by ``compile_(function, inputs)`` and hold its results, and what it leaves of its inputs, against eager's;
    with ``gradients`` the results' gradients too."""
    from inferno.errors import CaptureError, UnsupportedOperation

    wrap = with_gradients if gradients else lambda f: f
    function, inputs = wrap(program.function()), program.make_inputs()
    try:
        eager = run(function, inputs, device)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return Verdict("right", f"eager refuses it: {error}")
    try:
        compiled = wrap(compile_(program.function(), copies(inputs, device)))
        ours = run(compiled, inputs, device)
        again = run(compiled, inputs, device)
    except (CaptureError, UnsupportedOperation) as error:
        if "mutated that has internal overlap" in str(error):
            return Verdict("right", f"what is written to lies on itself, which has no one result: {error}")
        return Verdict("refused", f"{type(error).__name__}: {error}")
    except Exception as error:
        return Verdict("crash", f"{type(error).__name__}: {error}")
    exact = run_in(program, inputs, torch.float64, wrap)
    found = [f"gradient of {i.name}" for i in program.inputs if i.dtype in FLOATS] if gradients else []
    names = (*program.outputs, *found, *(i.name for i in program.inputs))
    doubtful = []
    for i, (name, a, b, c, d) in enumerate(zip(names, ours, again, eager, exact)):
        if a.shape != c.shape or a.dtype != c.dtype:
            return Verdict("wrong", f"{name}: {a.dtype} {tuple(a.shape)} where eager has {c.dtype} {tuple(c.shape)}")
        a, b, c, d = map(_reals, (a, b, c, d))
        if not torch.equal(a.nan_to_num(), b.nan_to_num()):
            return Verdict("wrong", f"{name}: two calls differ")
        if not c.is_floating_point():
            if not torch.equal(a, c):
                return Verdict("wrong", f"{name}: {(a != c).sum().item()} of {a.numel()} integers differ from eager's")
            continue
        if not torch.equal(a.isnan(), c.isnan()) or not torch.equal(a[a.isinf()], c[c.isinf()]):
            return Verdict("wrong", f"{name}: NaN or infinity is not where eager has it")
        sums = _Sums()
        sums.add(a, c, d)
        if math.sqrt(sums.ours) > sums.scale * max(1.5 * math.sqrt(sums.eager) / sums.scale, unit_of(program, c.dtype)):
            doubtful.append(i)
    return _ask_again(program, compiled, names, doubtful, device, wrap) if doubtful else Verdict("right")


def _ask_again(program: Program, compiled: Callable, names: tuple[str, ...], doubtful: list[int], device: str, wrap: Callable) -> Verdict:
    sums = {i: _Sums() for i in doubtful}
    spread = {i: [0.0, 0.0, 0.0] for i in doubtful}
    for draw in range(DRAWS):
        inputs = program.make_inputs(draw)
        ours, eager = run(compiled, inputs, device), run(wrap(program.function()), inputs, device)
        exact, half = run_in(program, inputs, torch.float64, wrap), run_in(program, inputs, torch.float32, wrap)
        perturbed = []
        for seed in range(3):
            with Perturbed(seed + 3 * draw):
                perturbed.append(run(wrap(program.function()), inputs, device))
        for i in doubtful:
            sums[i].add(ours[i], eager[i], exact[i])
            double = eager[i].dtype is torch.float64
            least = sums[i].add_eager(half[i], exact[i]) * FLOAT64_TO_FLOAT32**2 if double else 0.0
            for n, one in enumerate(perturbed):
                spread[i][n] += max(least, sums[i].add_eager(one[i], exact[i]))
    for i in doubtful:
        s, dtype = sums[i], eager[i].dtype
        own = math.sqrt(max(s.eager, *spread[i])) / s.scale
        error, bound = math.sqrt(s.ours) / s.scale, max(1.5 * own, unit_of(program, dtype))
        if not error <= bound:
            plain = math.sqrt(s.eager) / s.scale
            return Verdict("wrong", f"{names[i]}: error {error:.2e}, eager's {plain:.2e}, with roundings perturbed {own:.2e}, bound {bound:.2e}")
    return Verdict("right", "on many draws")
