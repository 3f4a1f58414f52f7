"""Is a compiled model right?  Its results against float64, by the rule that the whole project uses:

    ||ours - reference|| / ||reference||  <=  max(1.5 * eager's own error, eps of the result's dtype)

and NaN and infinity exactly where eager has them.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map


@dataclass(frozen=True)
class Comparison:
    """The worst result of one check: relative errors, the bound, and what is wrong, if anything."""

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


def to_float64(value: Any) -> Any:
    """A copy of a module, tensor or nest of tensors in float64; what is not floating point stays."""
    if isinstance(value, torch.nn.Module):
        module = copy.deepcopy(value).double()
        if hasattr(module, "set_experts_implementation"):
            module.set_experts_implementation("eager")  # transformers' default, a grouped matmul, has no float64
        return module
    def convert(leaf: Any) -> Any:
        return leaf.detach().double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf
    return tree_map(convert, value)


def reference(model: Callable, args: tuple, kwargs: dict[str, Any] | None = None) -> Any:
    """The model's result computed in float64."""
    with torch.no_grad():
        return to_float64(model)(*to_float64(args), **to_float64(kwargs or {}))


def compare(ours: Any, eager: Any, exact: Any, unit: float | None = None) -> Comparison:
    """Compare nests of results; the worst leaf counts.  Integers and booleans must be equal to eager's.

    ``unit`` is the rounding unit of the arithmetic where that is not the results' type: 2**-10 where float32 may be TF32.
    """
    a, b, c = (tree_leaves(x) for x in (ours, eager, exact))
    if not len(a) == len(b) == len(c):
        return Comparison(float("inf"), 0.0, 0.0, f"{len(a)} results where eager has {len(b)}")
    worst = Comparison(0.0, 0.0, 0.0)
    for i, leaves in enumerate(zip(a, b, c)):
        found = _compare_leaf(i, *leaves, unit)
        if not found.right:
            return found
        if found.error >= worst.error:
            worst = found
    return worst


def _compare_leaf(i: int, ours: Any, eager: Any, exact: Any, unit: float | None) -> Comparison:
    def bad(problem: str) -> Comparison:
        return Comparison(float("inf"), 0.0, 0.0, f"result {i}: {problem}")

    if not isinstance(eager, torch.Tensor):
        return Comparison(0.0, 0.0, 0.0) if ours == eager else bad(f"{ours!r} where eager has {eager!r}")
    if not isinstance(ours, torch.Tensor) or ours.shape != eager.shape or ours.dtype != eager.dtype:
        return bad(f"{_describe(ours)} where eager has {_describe(eager)}")
    if not (eager.is_floating_point() or eager.is_complex()):
        return Comparison(0.0, 0.0, 0.0) if torch.equal(ours, eager) else bad("integers differ from eager's")
    ours, eager, exact = ours.detach(), eager.detach(), exact.detach()
    same = torch.equal(ours.isnan(), eager.isnan()) and torch.equal(ours.isinf(), eager.isinf())
    if not same or not torch.equal(ours[ours.isinf()], eager[eager.isinf()]):
        return bad("NaN or infinity is not where eager has it")
    finite = eager.isfinite()
    norm = exact[finite].norm().item()
    scale = norm if norm > 0 else 1.0
    error = (ours[finite].double() - exact[finite]).norm().item() / scale
    eager_error = (eager[finite].double() - exact[finite]).norm().item() / scale
    bound = max(1.5 * eager_error, unit or torch.finfo(eager.dtype).eps)
    problem = "" if error <= bound else f"result {i}: error {error:.2e} over the bound {bound:.2e}"
    return Comparison(error, eager_error, bound, problem)


def _describe(value: Any) -> str:
    return f"{tuple(value.shape)} {value.dtype}" if isinstance(value, torch.Tensor) else repr(value)
