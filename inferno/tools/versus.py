"""A compiled module against eager and torch.compile: the same inputs, one process, alternating, outputs checked."""

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from inferno.runtime.check.comparison import compare
from inferno.tools.check import reference
from inferno.tools.timing import call_times, device_times

log = logging.getLogger(__name__)

MODES = {
    "torch.compile": None, "reduce-overhead": "reduce-overhead", "max-autotune": "max-autotune-no-cudagraphs", "max-autotune, graphs": "max-autotune",
}
_GRAPHS = ("reduce-overhead", "max-autotune, graphs")  # already CUDA graphs of their own


@dataclass(frozen=True)
class Times:
    """Microseconds by version: eager, inferno, others that were given, and torch.compile's modes that were asked for and worked."""

    call: dict[str, float]
    device: dict[str, float] = field(default_factory=dict)
    cold: dict[str, float] = field(default_factory=dict)
    right: bool = True
    check: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def versus(
    model: Callable, compiled: Callable, args: tuple, kwargs: dict[str, Any] | None = None, modes: tuple[str, ...] = ("torch.compile",),
    check: bool = True, budget: float = 0.4, others: dict[str, Callable] | None = None,
    seen: Callable[[tuple, Any], Any] | None = None, unit: float | None = None,
) -> Times:
    """Time ``compiled`` against eager, ``others`` and torch.compile in ``modes``; checks it against float64 first.

    ``seen``: what of the arguments and the results is compared, where right results may differ; ``unit``: as in ``compare``."""
    kwargs = kwargs or {}
    device = next((a.device for a in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)), torch.device("cpu"))
    versions: dict[str, Callable[[], Any]] = {"eager": lambda: model(*args, **kwargs), "inferno": lambda: compiled(*args, **kwargs)}
    for name, other in (others or {}).items():
        versions[name] = lambda other=other: other(*args, **kwargs)
    with torch.no_grad():
        results = [compiled(*args, **kwargs), model(*args, **kwargs), reference(model, args, kwargs)] if check else []
        verdict = compare(*(seen(args, r) if seen else r for r in results), unit) if check else None
        torch._dynamo.reset()  # what it compiled before counts: beyond eight versions of a function it would silently run eager
        for mode in modes:
            version = torch_compiled(model, mode, args, kwargs)
            if version is not None:
                versions[mode] = version
        call = call_times(versions, device, budget)
        gpu = device.type == "cuda"
        warm = {k: v for k, v in versions.items() if k not in _GRAPHS}
        return Times(
            call, device_times(warm) if gpu else {}, device_times(warm, cold=True) if gpu else {},
            verdict is None or verdict.right, str(verdict or "not checked"),
        )


def torch_compiled(model: Callable, mode: str, args: tuple, kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """torch.compile's version, warmed up; None where it does not work here (no C++ compiler, say)."""
    try:
        version = torch.compile(model, mode=MODES[mode], dynamic=False)
        with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
            for _ in range(3):
                version(*args, **kwargs)
        return lambda: version(*args, **kwargs)
    except Exception as error:  # any failure of torch's own compiler only takes it out of the table
        log.warning("%s does not work here: %s", mode, str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
        return None


def render(times: dict[str, Times], width: int = 140) -> str:
    """A table of cases, microseconds and ratios to eager."""
    table = Table()
    table.add_column("case", overflow="fold")
    names = list(dict.fromkeys(n for t in times.values() for n in t.call))
    for name in names:
        table.add_column(f"{name} call", justify="right")
    if any(t.device for t in times.values()):
        for name in names:
            table.add_column(f"{name} device", justify="right")
    table.add_column("call, eager/ours", justify="right")
    table.add_column("device, eager/ours", justify="right")
    table.add_column("right")
    for case, t in times.items():
        cells = [_us(t.call.get(n)) for n in names]
        if any(x.device for x in times.values()):
            cells += [_us(t.device.get(n)) for n in names]
        table.add_row(case, *cells, _ratio(t.call), _ratio(t.device), "yes" if t.right else "NO")
    console = Console(width=width, color_system=None)
    with console.capture() as text:
        console.print(table)
        console.print("times in microseconds")
    return text.get()


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _ratio(times: dict[str, float]) -> str:
    return f"{times['eager'] / times['inferno']:.2f}" if "eager" in times and times.get("inferno") else ""
