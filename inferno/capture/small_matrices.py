"""Determinants of matrices of few rows, their logarithms, and systems, as elementwise operations, where nothing reads the factors that torch gives beside them.

Those are of the matrix or of its transpose, by how it lies in memory, and what gradients are made of tells of which.
"""

from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
from torch.fx import Graph

from inferno.capture.batch_steps import trace_on
from inferno.capture.decompositions.small_matrices import are_small, det, slogdet, solve_ex
from inferno.capture.nodes import copy_before

aten = torch.ops.aten
# What makes results, and which these are.
_FUNCTIONS: dict[Any, tuple[Callable, tuple[int, ...]]] = {
    aten._linalg_det.default: (det, (0,)), aten._linalg_slogdet.default: (slogdet, (0, 1)), aten.linalg_slogdet.default: (slogdet, (0, 1)),
    aten._linalg_solve_ex.default: (solve_ex, (0, 3)),
}


def expand_small_matrices(graph: Graph, decompositions: dict[Any, Callable]) -> None:
    """Rewrite ``graph``, of decomposed operations, in place."""
    for node in [n for n in graph.nodes if n.op == "call_function" and n.target in _FUNCTIONS]:
        function, places = _FUNCTIONS[node.target]
        if any(u.target is not getitem or u.args[1] not in places for u in node.users) or not are_small(node.args[0].meta["val"]):
            continue
        if node.kwargs.get("check_errors") or not node.kwargs.get("left", True):
            continue
        if (traced := trace_on(function, node.args, decompositions)) is None:
            continue
        known, results = copy_before(node, traced, node.args), traced.output_node().args[0]
        for user in list(node.users):
            user.replace_all_uses_with(known[results[places.index(user.args[1])]])
            graph.erase_node(user)
        graph.erase_node(node)
