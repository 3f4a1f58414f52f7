"""Run one sample through Inferno and say what came of it."""

import contextlib
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

import inferno
from benchmarks.gradients import gradients_of
from benchmarks.opinfo.samples import SEEDS, UNDEFINED, Sample
from benchmarks.opinfo.ties import settle_ties
from inferno.errors import CaptureError, UnsupportedOperation
from inferno.runtime.check.comparison import compare
from inferno.tools.check import to_float64


# Of so few numbers the error is luck, eager's too: it is taken over several inputs then.
FEW, REPEATS = 16, 24


@dataclass(frozen=True)
class Outcome:
    """``verdict``: "whole" (right, compiled without fallback), "part" (right, some of it in eager), "wrong", "crash", or
    "none" where eager itself refuses the sample.  ``strides``: whether the results' are eager's."""

    verdict: str
    detail: str = ""
    strides: bool = True
    seconds: float = 0.0
    timed_out: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def judge(name: str, sample: Sample, device: str, through: str = "torch.compile", seconds: int = 60) -> Outcome:
    """The outcome of one sample of operator ``name``; what takes longer than ``seconds`` is a crash."""
    warnings.simplefilter("ignore")
    try:
        eager = _call(sample.function, fresh(sample.tensors), sample.differentiable)
    except Exception as error:
        return Outcome("none", _line(error))
    begin = time.perf_counter()
    try:
        with _limit(seconds):
            tensors = fresh(sample.tensors)
            run, whole = compiled(sample.function, tensors, device, through)
            ours = _call(run, tensors, sample.differentiable)
            whole = whole()
    except (UnsupportedOperation, CaptureError) as error:
        return Outcome("part", _line(error), seconds=time.perf_counter() - begin)
    except Exception as error:
        return Outcome("crash", _line(error) + _place(error), seconds=time.perf_counter() - begin, timed_out=_timed_out(error))
    taken = time.perf_counter() - begin
    problem = _difference(name, sample, ours, eager)
    if "over the bound" in problem and max(t.numel() for t in _tensors(ours[0])) <= FEW:
        problem = _repeated(sample, run, problem)
    strides = [t.stride() for t in _tensors(ours[0])] == [t.stride() for t in _tensors(eager[0])]
    return Outcome("wrong" if problem else "part" if whole else "whole", problem or whole, strides, taken)


def fresh(tensors: list[Tensor]) -> list[Tensor]:
    """Copies that no one else holds, with the strides and the aliasing of ``tensors``."""
    storages: dict[int, torch.UntypedStorage] = {}
    made = []
    for t in tensors:
        if t.layout != torch.strided or t.is_quantized:
            made.append(t.clone())
            continue
        storage = t.untyped_storage()
        copy = storages.setdefault(storage._cdata, storage.clone())
        flags = t.is_conj(), t.is_neg()
        new = torch.empty(0, dtype=t.dtype, device=t.device).set_(copy, t.storage_offset(), t.shape, t.stride())
        new = torch._conj(new) if flags[0] else new
        made.append(torch._neg_view(new) if flags[1] else new)
    return made


def _call(function: Callable, tensors: list[Tensor], differentiable: tuple[int, ...] = ()) -> tuple[Any, list[Tensor]]:
    """The results, from the same random state each time, and what the inputs hold afterwards; or the gradients, if there are any."""
    torch.manual_seed(0)
    with torch.set_grad_enabled(bool(differentiable)):
        wanted = [tensors[i].requires_grad_() for i in differentiable]
        results = function(*tensors)
        gradients = gradients_of(results, wanted)
    return tree_map(_dense, (results, [t.detach() for t in tensors] if gradients is None else gradients))


def _dense(value: Any) -> Any:
    """Sparse results are compared by their elements; of complex numbers in 16 bits torch can hardly do anything."""
    if not isinstance(value, Tensor):
        return value
    value = value.detach() if value.layout == torch.strided else value.detach().to_dense()
    return value.to(torch.complex64) if value.dtype == torch.complex32 else value


def compiled(function: Callable, tensors: list[Tensor], device: str, through: str) -> tuple[Callable, Callable[[], str]]:
    """The compiled function, and what tells after a call which of its pieces ran in eager ("" if none did).

    ``through`` is "torch.compile", or "inferno.compile", which then refuses what it would run in eager.
    """
    if through == "inferno.compile":
        module = inferno.compile(function, tuple(tensors), target="cpu" if device == "cpu" else None, fallback=False)
        return module, lambda: ""
    torch._dynamo.reset()
    inferno.stats(reset=True)
    breaks = torch._dynamo.utils.counters["graph_break"]
    breaks.clear()

    def eager_pieces() -> str:
        found = inferno.stats()
        if breaks:
            return "graph break: " + next(iter(breaks)).splitlines()[0][:300]
        if found.fallbacks:
            return f"{found.fallbacks} operations in eager"
        return "" if found.graphs else "no graph"

    return torch.compile(function, backend="inferno", dynamic=False), eager_pieces


def _difference(name: str, sample: Sample, ours: tuple, eager: tuple) -> str:
    if name in UNDEFINED:
        same = [(t.shape, t.dtype) for t in _tensors(ours)] == [(t.shape, t.dtype) for t in _tensors(eager)]
        return "" if same else "shapes or dtypes differ"
    exact = _exact(sample, eager)
    ours, eager, exact = ((_results(name, r[0]), r[1]) for r in (ours, eager, exact))
    mine, theirs, true = tree_leaves((settle_ties(name, sample, ours[0], eager[0]), ours[1])), tree_leaves(eager), tree_leaves(exact)
    if len(mine) == len(theirs) == len(true):
        theirs = [_without_overflow(*leaves) for leaves in zip(mine, theirs, true)]
    return compare(mine, theirs, true).problem


def _results(name: str, made: Any) -> Any:
    """Without those that are no results: the state of the random numbers that there might have been, left as it was made."""
    return [r for i, r in enumerate(made) if i not in SEEDS[name]] if name in SEEDS else made


def _without_overflow(ours: Any, eager: Any, exact: Any) -> Any:
    """Eager's result with the exact numbers in place of infinities and NaN that came of a step on its way, and ours has not."""
    if not isinstance(eager, Tensor) or not eager.is_floating_point() or not isinstance(ours, Tensor) or ours.shape != eager.shape:
        return eager
    number = exact.isfinite() & (exact.abs() <= torch.finfo(eager.dtype).max)
    return torch.where(~eager.isfinite() & number & ours.isfinite(), exact.to(eager.dtype), eager)


def _repeated(sample: Sample, run: Callable, problem: str) -> str:
    """What is wrong over several inputs, each a little off the sample's; integers are where they are all
    that there is.  ``problem`` is what is wrong without that, and stays where eager refuses such inputs."""
    generator = torch.Generator().manual_seed(0)
    found: list[list[Any]] = [[], [], []]
    floats = any(t.is_floating_point() for t in sample.tensors)

    def nudged(t: Tensor) -> Tensor:
        if t.is_floating_point():
            return (t * (1 + torch.rand(t.shape, generator=generator, dtype=torch.float64) / 8).to(t.device)).to(t.dtype)
        if floats or t.dtype == torch.bool or t.is_complex():
            return t
        return t + torch.randint(-1, 2, t.shape, generator=generator, dtype=t.dtype).to(t.device)

    for _ in range(REPEATS):
        tensors = [nudged(t) for t in sample.tensors]
        near = replace(sample, tensors=tensors)
        try:
            eager = _call(near.function, fresh(tensors), near.differentiable)
        except Exception:  # an integer was a place or a class
            return problem
        for results, made in zip(found, (_call(run, fresh(tensors), near.differentiable), eager, _exact(near, eager))):
            results.append([t for t in _tensors(made if near.differentiable else made[0]) if t.is_floating_point()])
    return compare(*([torch.stack(leaf) for leaf in zip(*results)] for results in found)).problem


def _exact(sample: Sample, eager: tuple) -> tuple:
    """The results in float64, also of integers; eager's own where the operator does not take float64."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        exact = _call(sample.exact, to_float64(fresh(sample.tensors)), sample.differentiable)
    except Exception:
        return eager
    finally:
        torch.set_default_dtype(default)
    pairs = list(zip(tree_leaves(exact), tree_leaves(eager)))
    same = len(tree_leaves(exact)) == len(tree_leaves(eager)) and all(
        not isinstance(e, Tensor) or (a.shape == e.shape and _finite(a, e)) for a, e in pairs
    )
    return exact if same else eager


def _finite(exact: Tensor, eager: Tensor) -> bool:
    """Whether ``exact`` has a number wherever eager has one."""
    return exact.is_floating_point() != eager.is_floating_point() or not bool((eager.isfinite() & ~exact.isfinite()).any())


def _tensors(value: Any) -> list[Tensor]:
    return [t for t in tree_leaves(value) if isinstance(t, Tensor)]


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:400]


def _timed_out(error: BaseException | None) -> bool:
    """Whether it is a TimeoutError, or was raised for one."""
    return error is not None and (isinstance(error, TimeoutError) or _timed_out(error.__cause__ or error.__context__) or "not done after" in str(error))


def _place(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/inferno/" in f.filename]
    return f" ({frames[-1].filename.rpartition('/inferno/')[2]}:{frames[-1].lineno})" if frames else ""


@contextlib.contextmanager
def _limit(seconds: int) -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
