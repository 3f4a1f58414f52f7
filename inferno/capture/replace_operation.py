"""Replace an operation of a graph by the operations that a function of its operands is traced to."""

from collections.abc import Callable, Sequence
from operator import attrgetter, getitem
from typing import Any

import torch
from torch import SymInt
from torch._guards import detect_fake_mode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from inferno.capture.nodes import copy_before
from inferno.errors import CompileError


def varies(node: Node) -> bool:
    """Whether a size of what a node reads is a symbol."""
    values = [n.meta.get("val") for n in node.all_input_nodes]
    shapes = [v.shape if isinstance(v, torch.Tensor) else (v,) for v in values]
    return any(isinstance(n, SymInt) for shape in shapes for n in shape)


def expand(module: GraphModule, node: Node, function: Callable, decompositions: dict[Any, Callable]) -> None:
    """``function`` traced and decomposed, in the place of ``node``; raises, before anything is changed, where its results are not what the node's are."""
    graph = module.graph
    given = [n for n in node.all_input_nodes if n.op != "get_attr" or isinstance(n.meta.get("val"), torch.Tensor)]

    def call(*tensors: torch.Tensor) -> Any:
        values = dict(zip(given, tensors))
        return function(*map_arg(node.args, lambda n: values[n] if n in values else attrgetter(n.target)(module)))

    traced = trace(call, given, decompositions)
    results = traced.output_node().args[0]
    users = [(user, _at(results, user)) for user in node.users]
    _check(traced, users)
    known = copy_before(node, traced, given)
    for user, result in users:
        _replace(graph, user, result, known)
    functions = [n for n in node.all_input_nodes if n.op == "get_attr"]
    graph.erase_node(node)
    for each in (*reversed(known.values()), *functions):
        if not each.users and each.op in ("call_function", "get_attr"):
            graph.erase_node(each)


def trace(call: Callable, given: Sequence[Node], decompositions: dict[Any, Callable]) -> Graph:
    """The graph of a function of nodes' values."""
    fakes = [n.meta["val"] for n in given]
    with detect_fake_mode(fakes), torch.no_grad():
        traced = make_fx(call, decomposition_table=decompositions)(*fakes).graph
        place_numbers(traced, fakes[0].device)
    return traced


def place_numbers(traced: Graph, device: torch.device) -> None:
    """Numbers as tensors, which vmap makes on the CPU, and what is computed of them alone, on the device that all else is on."""
    for node in traced.nodes:
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor) or value.device == device:
            continue
        if node.target is torch.ops.aten.scalar_tensor.default:
            node.target, node.args, node.kwargs = torch.ops.aten.full.default, ([], node.args[0]), {"dtype": value.dtype, "device": device}
        elif not node.all_input_nodes or any(n.meta["val"].device != device for n in node.all_input_nodes):
            continue
        node.meta["val"] = value.to(device)


def _at(results: Any, user: Node) -> Any:
    if user.target is not getitem:
        raise CompileError("its results are read together")
    return results[user.args[1]]


def _check(traced: Graph, users: list[tuple[Node, Any]]) -> None:
    """CompileError unless a graph is of functions of tensors, and has what its users expect."""
    for node in traced.nodes:
        if node.op == "get_attr" or (node.op == "call_function" and not isinstance(node.target, torch._ops.OpOverload)):
            raise CompileError(f"{node.target} is in it")
        if node.op == "call_function" and node.target._schema.is_mutable:
            raise CompileError(f"{node.target} writes to its argument")
    for user, result in users:
        for made, expected in zip(tree_leaves(result), tree_leaves(user.meta["val"]), strict=True):
            value = made.meta["val"] if isinstance(made, Node) else None
            if value is None or (value.shape, value.dtype, value.device, _strides(value)) != (
                expected.shape, expected.dtype, expected.device, _strides(expected),
            ):
                raise CompileError(f"{user} is made as another tensor")


def _strides(value: torch.Tensor) -> list[int]:
    return [step for size, step in zip(value.shape, value.stride()) if size != 1]


def _replace(graph: Graph, user: Node, result: Any, known: dict[Node, Node]) -> None:
    """``result`` for ``user``: a tensor, or tensors that are taken out of it one by one."""
    if isinstance(result, Node):
        user.replace_all_uses_with(known[result])
    else:
        for inner in list(user.users):
            _replace(graph, inner, result[inner.args[1]], known)
    graph.erase_node(user)
