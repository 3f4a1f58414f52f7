"""Shared by tests: a compiled model must be right by the project's rule, on fresh random inputs, with poisoned outputs."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

import inferno
from inferno.capture import capture
from inferno.capture.devices import capturing_for
from inferno.runtime.build import build_from
from inferno.runtime.check.comparison import Comparison, compare
from inferno.runtime.program import Program
from inferno.target import find_target
from inferno.tools.check import reference


def assert_right(
    model: Callable, args: tuple = (), kwargs: dict[str, Any] | None = None, unit: float | None = None, **options: Any,
) -> inferno.CompiledModule:
    """Compile ``model``, check it against float64 and that inputs are left alone; returns the compiled module."""
    kwargs = kwargs or {}
    before = torch.utils._pytree.tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, (args, kwargs))
    compiled = inferno.compile(model, args, kwargs=kwargs, **{"fallback": False, **options})
    poison_memory()
    found = check(compiled, model, args, kwargs, unit)
    assert found.right, str(found)
    for old, new in zip(torch.utils._pytree.tree_leaves(before), torch.utils._pytree.tree_leaves((args, kwargs))):
        assert not isinstance(old, torch.Tensor) or torch.equal(old.nan_to_num(), new.nan_to_num()), "an input was written to"
    return compiled


def scheduled(model: Callable, args: tuple, target: str = "sm_90a", last: str = "scheduled", **options: Any) -> Program:
    """The program up to the ``scheduled`` stage, which has what is chosen, or the ``last`` one before it: its kernels are not built."""
    with capturing_for(find_target(target).hopper):
        text = capture(model, args).text
    return build_from("torch", text, find_target(target), last=last, **options)


def check(
    compiled: Callable, model: Callable, args: tuple, kwargs: dict[str, Any] | None = None, unit: float | None = None,
) -> Comparison:
    """Compare two calls of ``compiled`` (they must agree bit for bit; one of what is ``simulated``, which keeps nothing between calls) with eager
    and float64."""
    kwargs = kwargs or {}
    with torch.no_grad():
        ours = compiled(*args, **kwargs)
        again = ours if getattr(compiled, "simulated", False) else compiled(*args, **kwargs)
        for a, b in zip(torch.utils._pytree.tree_leaves(ours), torch.utils._pytree.tree_leaves(again)):
            assert not isinstance(a, torch.Tensor) or torch.equal(a.nan_to_num(), b.nan_to_num()), "two runs differ"
        return compare(ours, model(*args, **kwargs), reference(model, args, kwargs), unit)


def poison_memory() -> None:
    """Leave NaN in the memory that the next allocations will get."""
    if torch.cuda.is_available():
        blocks = [torch.full((n,), float("nan"), device="cuda") for n in (64, 4096, 1 << 18, 1 << 22)]
        del blocks


def assert_close_to_float64(ours: Any, function: Callable, args: tuple) -> None:
    """The result ``ours`` of ``function`` on ``args``, by the project's rule."""
    with torch.no_grad():
        found = compare(ours, function(*args), reference(function, args))
    assert found.right, str(found)


def in_threads(work: Callable[[int], None], numbers: Iterable[int]) -> None:
    """Call ``work`` with each number, side by side in threads; raises what the first of them raised."""
    numbers = list(numbers)
    with ThreadPoolExecutor(len(numbers)) as threads:
        for future in [threads.submit(work, n) for n in numbers]:
            future.result()
