"""Is a result right?  The rule that the whole project uses:

    ||ours - reference|| / ||reference||  <=  max(1.5 * eager's own error, eps of the result's dtype)

and NaN and infinity exactly where eager has them.  Integers and booleans are equal to eager's.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True)
class Comparison:
    """One result, or the worst of several: relative errors, the bound, and what is wrong, if anything."""

    error: float
    eager_error: float
    bound: float
    problem: str = ""

    @property
    def right(self) -> bool:
        return not self.problem

    def __str__(self) -> str:
        verdict = "right" if self.right else f"WRONG: {self.problem}"
        return f"{verdict}; error {self.error:.2e}, eager's {self.eager_error:.2e}, bound {self.bound:.2e}"


def compare(ours: Any, eager: Any, exact: Any, unit: float | None = None) -> Comparison:
    """Compare nests of results; the worst leaf counts.

    ``unit`` is the rounding unit of the arithmetic where that is not the results' type: 2**-10 where float32 may be TF32.
    """
    a, b, c = (tree_leaves(x) for x in (ours, eager, exact))
    if not len(a) == len(b) == len(c):
        return Comparison(float("inf"), 0.0, 0.0, f"{len(a)} results where eager has {len(b)}")
    worst = Comparison(0.0, 0.0, 0.0)
    for i, leaves in enumerate(zip(a, b, c)):
        found = compare_leaf(f"result {i}", *leaves, unit)
        if not found.right:
            return found
        if found.error >= worst.error:
            worst = found
    return worst


def compare_leaf(name: str, ours: Any, eager: Any, exact: Any, unit: float | None = None, eager_error: float = 0.0) -> Comparison:
    """Compare one result; ``name`` is what it is called in the problem.  ``eager_error`` is what is known of eager's error beside
    this result."""

    def bad(problem: str) -> Comparison:
        return Comparison(float("inf"), 0.0, 0.0, f"{name}: {problem}")

    if not isinstance(eager, torch.Tensor):
        plain = eager is None or isinstance(eager, (bool, int, float, str))  # an object of another kind says nothing by ==
        return Comparison(0.0, 0.0, 0.0) if not plain or ours == eager else bad(f"{ours!r} where eager has {eager!r}")
    if not isinstance(ours, torch.Tensor) or ours.shape != eager.shape or ours.dtype != eager.dtype:
        return bad(f"{_describe(ours)} where eager has {_describe(eager)}")
    if not (eager.is_floating_point() or eager.is_complex()):
        return Comparison(0.0, 0.0, 0.0) if torch.equal(ours, eager) else bad("integers differ from eager's")
    eps = torch.finfo(eager.dtype).eps
    ours, eager, exact = (widened(x.detach()) for x in (ours, eager, exact))
    # Eager's own sums of 16 bits may overflow on the way to a number that has room: logsumexp of 137088 numbers of float16 is infinite there, and not 11.8.
    overflowed = ~eager.isfinite() & ours.isfinite() & (exact.abs() <= torch.finfo(eager.dtype).max)
    eager = torch.where(overflowed, exact.to(eager.dtype), eager)
    same = torch.equal(ours.isnan(), eager.isnan()) and torch.equal(ours.isinf(), eager.isinf())
    if not same or not torch.equal(ours[ours.isinf()], eager[eager.isinf()]):
        return bad("NaN or infinity is not where eager has it")
    error, own = relative_error(ours, eager, exact), max(relative_error(eager, eager, exact), eager_error)
    bound = max(1.5 * own, unit or eps)
    return Comparison(error, own, bound, "" if error <= bound else f"{name}: error {error:.2e} over the bound {bound:.2e}")


def widened(value: torch.Tensor) -> torch.Tensor:
    """The same numbers in a type of which torch can say whether they are finite, as it cannot of float8."""
    return value.float() if value.is_floating_point() and value.itemsize == 1 else value


def relative_error(value: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> float:
    """||value - exact|| / ||exact|| over what is finite in eager's result; against 1 where the exact result is 0."""
    finite = eager.isfinite()
    wide = torch.complex128 if exact.is_complex() else torch.float64
    reference = exact[finite].to(wide)
    norm = reference.norm().item()
    return (value[finite].to(wide) - reference).norm().item() / (norm if norm > 0 else 1.0)


def _describe(value: Any) -> str:
    return f"{tuple(value.shape)} {value.dtype}" if isinstance(value, torch.Tensor) else repr(value)
