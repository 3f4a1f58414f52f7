"""``inferno.explain(fn)``: what became of a function or module under ``torch.compile(backend="inferno")``."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from inferno.errors import InputError
from inferno.runtime.check.restoring import devices_of, untraced
from inferno.runtime.region.graphs import CompiledGraph, graphs_of, live_graphs
from inferno.runtime.region.region import Region
from inferno.runtime.region.timing import Timing, measure
from inferno.runtime.report import Report, report_of


def explain(compiled: Any, /, *args: Any, **kwargs: Any) -> Report:
    """The report of a result of ``inferno.compile`` or of ``torch.compile(..., backend="inferno")``, or of a module of which parts are.

    It is about all graphs that were compiled for it so far, those behind its graph breaks too.  Given the arguments of a call, it is
    about the graphs that run in that call, which are compiled if they were not yet, and has the time and the share of each piece.
    The call is run several times: what it writes to tensors, and the random numbers that it draws, are taken back.

    InputError where nothing has been compiled for it: it was not called yet, or has another backend.
    """
    if hasattr(type(compiled), "explain") and hasattr(type(compiled), "ir"):  # ours, or an instance of a decorated class
        return compiled.explain(*args, **kwargs)
    if args or kwargs:
        regions, timing = measure_captured(compiled, args, kwargs, lambda: _regions(live_graphs()))
    else:
        regions, timing = _regions(graphs_of(compiled)), None
    if not regions:
        raise InputError(
            "compiled: expected a result of inferno.compile, or of torch.compile(..., backend=\"inferno\") that has been called, "
            f"got {compiled!r:.100} for which Inferno has compiled nothing"
        )
    notes = tuple(f"graph {i}, {kind}: {len(r.programs)} segments" for i, (kind, r) in enumerate(regions))
    return report_of_regions([r for _, r in regions], notes, timing)


def _regions(graphs: list[CompiledGraph]) -> list[tuple[str, Region]]:
    """The regions of graphs, each once: the graphs of one DynamoModule have them in one list."""
    return list({id(region): (kind, region) for graph in graphs for kind, region in graph.regions}.values())


def report_of_regions(regions: list[Region], notes: tuple[str, ...], timing: Timing | None, target: str = "none") -> Report:
    """The report of several graphs; ``target`` is named where none of them has a program."""
    programs = [p for r in regions for p in r.programs]
    fallbacks = [f for r in regions for f in r.fallbacks]
    steps = [r.steps for r in regions]
    name = programs[0].target.name if programs else target
    alone = Counter(r.one_size for r in regions if r.one_size)
    notes = (*notes, *(f"{count} graph{'s' if count > 1 else ''} compiled for one size, not for every one: {why}" for why, count in alone.items()))
    return report_of(name, programs, fallbacks, sum(r.seconds for r in regions), notes, steps, timing)


def measure_captured(
    function: Callable, args: tuple, kwargs: dict[str, Any], regions: Callable[[], list[tuple[str, Region]]],
) -> tuple[list[tuple[str, Region]], Timing]:
    """A call of a result of torch.compile: those of the ``regions`` that run in it, in the order that they first do, and their times."""
    with untraced(function, args, kwargs) as prepare:
        prepare()()
        known = regions()
        devices = devices_of(function, args, kwargs) or [r.device for _, r in known] or [torch.device("cpu")]
        timing = measure(prepare, [r for _, r in known], devices[0])
    return [known[i] for i in timing.steps], timing
