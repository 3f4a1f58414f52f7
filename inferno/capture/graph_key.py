"""A text that stands for a captured graph: equal for graphs that compile to the same program, in any process.

It holds each node's operation, arguments, shape, dtype, strides and device, and of its origin what goes into results: the
name and the line that ``explain()`` prints.  A graph with anything in it that is not known to be told apart this way (a custom
operation, whose decomposition is somebody's Python; a size that varies; an object) has no text, and is not looked up.
"""

import hashlib
import math
import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from inferno.capture.autocast import around
from inferno.capture.nodes import operation_name, user_line

NAMESPACES = ("aten", "prims", "prim", "torchvision")  # whose decompositions come with the packages in the key of versions
_MODULES = (operator, math)
_LARGEST_CONSTANT = 1 << 24  # bytes; hashed in 20 ms
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class _Unknown(Exception):
    pass


def graph_key(graph: Graph, extra: Iterable[Any] = ()) -> str | None:
    """The text of ``graph`` and of ``extra``, which must be plain values or strings; None if it holds anything unknown."""
    try:
        lines = [_value(e) for e in extra]
        _graph(graph, lines)
        lines.append(state())
    except _Unknown:
        return None
    return "\n".join(lines)


def _graph(graph: Graph, lines: list[str]) -> None:
    for node in graph.nodes:
        where = user_line(node)
        lines.append("|".join((
            node.op, node.name, _target(node, lines), _value(node.args), _value(node.kwargs), _meta(node.meta.get("val")),
            operation_name(node), f"{where[0]}:{where[1]}" if where else "",
        )))


def _target(node: Node, lines: list[str]) -> str:
    target = node.target
    if node.op in ("placeholder", "output"):
        return str(target)
    if node.op == "get_attr":
        return f"{target}={_attribute(node, lines)}"
    if node.op != "call_function":
        raise _Unknown
    if isinstance(target, torch._ops.OpOverload):
        if target.namespace not in NAMESPACES:
            raise _Unknown
        return str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher order {target.name()}"
    for module in _MODULES:
        if getattr(module, getattr(target, "__name__", ""), None) is target:
            return f"{module.__name__}.{target.__name__}"
    raise _Unknown


def _attribute(node: Node, lines: list[str]) -> str:
    """What a node takes from the module that owns the graph: a graph in it, or a tensor."""
    value: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        value = getattr(value, part, None)
    if isinstance(value, GraphModule):
        lines.append(f"begin {node.target}")
        _graph(value.graph, lines)
        lines.append(f"end {node.target}")
        return "graph"
    if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided and value.numel() * value.element_size() <= _LARGEST_CONSTANT:
        data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8) if value.numel() else torch.empty(0, dtype=torch.uint8, device="cpu")
        return f"{_meta(value)} {hashlib.blake2b(data.numpy().tobytes(), digest_size=20).hexdigest()}"
    raise _Unknown


def _value(value: Any) -> str:
    """An argument as text; numbers of different types differ."""
    if isinstance(value, Node):
        return f"%{value.name}"
    if type(value) in _PLAIN:
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({' '.join(_value(v) for v in value)})"
    if isinstance(value, dict):
        return f"{{{' '.join(f'{k!r}:{_value(v)}' for k, v in value.items())}}}"
    if isinstance(value, slice):
        return f"slice{_value((value.start, value.stop, value.step))}"
    raise _Unknown


def _meta(value: Any) -> str:
    """What is known of a node's result without running it."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or any(not isinstance(s, int) for s in (*value.shape, *value.stride())):
            raise _Unknown
        return f"{value.dtype} {tuple(value.shape)} {tuple(value.stride())} {value.device} {value.requires_grad}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(_meta(v) for v in value)})"
    if type(value) in _PLAIN:
        return repr(value)
    raise _Unknown


def state() -> str:
    """What of the process torch's own decompositions look at."""
    cuda = torch.backends.cuda
    return repr((
        torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(), torch.backends.mkldnn.enabled, torch.backends.cudnn.enabled,
        cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled(), cuda.cudnn_sdp_enabled(),
        torch.backends.mha.get_fastpath_enabled(),
        around(),
    ))
