"""What the user wrote of a graph's node: its operation's name, its line, its shapes, for locations and for errors."""

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.node import map_arg

from inferno.capture.orders import example_bytes
from inferno.errors import UnsupportedOperation

_TORCH = os.path.dirname(torch.__file__) + os.sep
# What not every torch gives the tag.
_POINTWISE = {
    torch.ops.prims.convert_element_type.default, torch.ops.aten._to_copy.default, torch.ops.aten.threshold_backward.default, torch.ops.aten.clone.default,
}
_OURS = os.path.dirname(__file__) + os.sep


def is_library(file: str) -> bool:
    """Whether a source file is torch's own (a user wants to see the line that called it)."""
    return file.startswith((_TORCH, _OURS)) or (file.startswith("<") and file != "<-c>")  # the shell's text is the user's


def operation_name(node: torch.fx.Node) -> str:
    """What the user called: ``linear`` for the node ``linear_3`` and what it was decomposed into."""
    if stack := node.meta.get("source_fn_stack"):  # Dynamo's: its nodes are called like the variables that hold their results
        return re.sub(r"_\d+$", "", str(stack[-1][0])) or node.name
    sources = node.meta.get("from_node")
    name = sources[-1].name if sources else node.name
    while sources and getattr(sources[-1], "from_node", None):
        sources = sources[-1].from_node
        name = sources[-1].name
    return re.sub(r"(_default)?(_\d+)?$", "", name).strip("_") or name


def user_line(node: torch.fx.Node) -> tuple[str, int] | None:
    """(file, line) of the innermost frame outside of torch; None if the node has no trace."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    for file, line in reversed(frames):
        if not is_library(file):
            return file, int(line)
    return None


def takes_sizes_that_vary(graph: torch.fx.Graph) -> bool:
    """Whether an input of a graph is a size that varies, or has one."""
    values = [n.meta.get("val") for n in graph.nodes if n.op == "placeholder"]
    sizes = [size for v in values for size in (v.shape if isinstance(v, torch.Tensor) else (v,))]
    return any(isinstance(size, torch.SymInt) for size in sizes)


def is_of_vmap(node: torch.fx.Node) -> bool:
    """Whether this is what torch.export leaves around a torch.func.vmap, whose operations are those of one sample: where it begins and ends."""
    return getattr(node.target, "__module__", "") == "torch._functorch.predispatch"


def is_of_jvp(node: torch.fx.Node) -> bool:
    """Whether this is where a torch.func.jvp begins, as torch.export leaves it."""
    return is_of_vmap(node) and node.target.__name__ == "_enter_dual_level"


def is_pointwise(node: torch.fx.Node) -> bool:
    """Whether each element of the result is made of one of each operand, and of nothing else, and nothing is written to."""
    return computes_points(node.target)


def computes_points(target: Any) -> bool:
    """The same of what is called."""
    if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
        return False
    return target in _POINTWISE or torch.Tag.pointwise in target.tags


def argument(node: torch.fx.Node, name: str) -> Any:
    """An argument by its name, or the value that it has where none is given; None where the operation has no such argument."""
    for i, each in enumerate(node.target._schema.arguments):
        if each.name == name:
            return node.args[i] if i < len(node.args) else node.kwargs.get(name, each.default_value)
    return None


def value_bytes(node: torch.fx.Node) -> int:
    """The bytes of all tensors that a node gives, in the example."""
    values = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    return sum(example_bytes(v) for v in values if isinstance(v, torch.Tensor))


def apply(node: torch.fx.Node, target: Callable, *more: Any, **options: Any) -> torch.fx.Node:
    """A call of ``target`` on what a node gives, where the graph inserts, with the node's metadata but for its value."""
    made = node.graph.call_function(target, (node, *more), options)
    made.meta = value_meta(node, target(node.meta["val"], *more, **options))
    return made


def call_beside(node: torch.fx.Node, target: Callable, *args: Any, **kwargs: Any) -> torch.fx.Node:
    """A call of ``target`` on nodes and numbers, where the graph inserts, with the metadata of ``node``, whose value it helps to make, but for its own."""
    made = node.graph.call_function(target, args, kwargs)
    given, named = map_arg((args, kwargs), lambda n: n.meta["val"])
    mode = getattr(node.meta.get("val"), "fake_mode", contextlib.nullcontext())  # what is made of no tensor
    with mode, enable_python_dispatcher():  # without which some operations take a size that varies for the example's
        made.meta = value_meta(node, target(*given, **named))
    return made


def value_meta(node: torch.fx.Node, value: Any) -> dict[str, Any]:
    """The node's metadata for another value; the importer would take "tensor_meta" before "val"."""
    return {**{k: v for k, v in node.meta.items() if k != "tensor_meta"}, "val": value}


def unsupported(node: torch.fx.Node, reason: str, target: object = None) -> UnsupportedOperation:
    """An error that names the operation, the user's line and the shapes."""
    where = user_line(node)
    shapes = ", ".join(_describe(v) for v in node.all_input_nodes)
    place = f" at {where[0]}:{where[1]}" if where else ""
    lines = reason.strip().splitlines()
    return UnsupportedOperation(f"{target or node.target}{place} on ({shapes}) is not supported: {lines[0] if lines else 'no reason given'}")


def _describe(node: torch.fx.Node) -> str:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    return type(value).__name__


def copy_before(node: torch.fx.Node, traced: torch.fx.Graph, given: Sequence[torch.fx.Node]) -> dict[torch.fx.Node, torch.fx.Node]:
    """The functions of ``traced`` copied in front of ``node``, at the user's line of it, on ``given`` for its inputs; what each of its nodes is there."""
    known = dict(zip((n for n in traced.nodes if n.op == "placeholder"), given))
    with node.graph.inserting_before(node):
        for each in traced.nodes:
            if each.op == "call_function":
                known[each] = node.graph.node_copy(each, known.__getitem__)
                known[each].meta = value_meta(node, each.meta["val"])
    return known
