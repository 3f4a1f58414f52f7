"""Regions under check: what each compiled segment is called with, and the first call of a region held against its graph."""

import dataclasses
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from inferno.capture.orders import dense_order
from inferno.errors import CheckError
from inferno.runtime.program import Program
from inferno.runtime.region.region import Region

log = logging.getLogger(__name__)


def record(regions: Sequence[Region], call: Callable[[], Any]) -> list[tuple[Program, tuple[Tensor, ...]]]:
    """The programs that ``call()`` runs, in order, with copies of the arguments of each one's ``@main``.

    A region's function names its segments in its scope; for the time of the call recorders stand in their places.
    """
    found: list[tuple[Program, tuple[Tensor, ...]]] = []
    replaced: list[tuple[dict[str, Any], str, Any]] = []
    for region in regions:
        scope = inspect.unwrap(region.run).__globals__
        for i, program in enumerate(region.programs):
            name = f"segment_{i}"
            replaced.append((scope, name, scope[name]))
            scope[name] = _recorder(found, program, scope[name])
    try:
        with torch.no_grad():
            call()
    finally:
        for scope, name, segment in replaced:
            scope[name] = segment
    return found


def _recorder(found: list, program: Program, segment: Callable) -> Callable:
    def recorded(*given: Any) -> Any:
        tensors = given[0] if given and isinstance(given[0], list) else given  # a segment that takes has them in a list
        found.append((program, tuple(_as_argument(t) for t in tensors)))
        return segment(*given)

    return recorded


def _as_argument(tensor: Tensor) -> Tensor:
    """A copy of a segment's input as ``@main`` sees it: its memory in row-major order."""
    order = dense_order(tensor)
    return (tensor if order is None else tensor.permute(order)).detach().clone(memory_format=torch.contiguous_format)


def check_region(region: Region, graph: GraphModule, device: torch.device) -> Region:
    """The region, whose first call is held against the graph's operations in eager and in float64; CheckError if it is wrong."""
    plain, done = region.run, [False]

    def run(inputs: list[Any]) -> list[Any]:
        if done[0]:
            return plain(inputs)
        from inferno.runtime.check.checking import check_against, explain_wrong

        given = list(inputs)
        held = [(n.name, t) for n, t in zip((n for n in graph.graph.nodes if n.op == "placeholder"), given) if isinstance(t, Tensor)]
        found = check_against(lambda: plain(inputs), lambda stand: list(graph(*(stand(v) for v in given))), held, device)
        if not found.right:
            raise CheckError(explain_wrong(found, lambda: record([region], lambda: plain(list(given))), device))
        done[0] = True
        log.info("checked: %d results of a graph are right", len(found.results))
        return found.output

    run.__wrapped__ = plain
    return dataclasses.replace(region, run=run)
