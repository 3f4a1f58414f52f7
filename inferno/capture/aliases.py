"""Tensors that are one tensor, or share memory, before and after torch.export.

torch.export takes tensors that are one object for one input, and a buffer that the model also holds in an object of its own (a
key-value cache does) for a buffer and a constant, of which it cannot make functional what writes to the memory that they share.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument
from torch.fx import Node
from torch.utils._pytree import tree_map

from inferno.capture.host_work import written
from inferno.errors import CaptureError

aten = torch.ops.aten

_DROPOUTS = {aten.dropout.default, aten.feature_dropout.default, aten.alpha_dropout.default, aten.feature_alpha_dropout.default}
_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def distinct_examples(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The same arguments, no two of them one tensor or in one memory, and none of them a tensor of the module.

    A call may well pass other tensors, so nothing may follow from it that the examples are the same.
    """
    seen = {_memory(t) for t in (*module.parameters(), *module.buffers()) if t.layout is torch.strided}

    def distinct(leaf: Any) -> Any:
        if type(leaf) not in (Tensor, torch.nn.Parameter) or leaf.layout is not torch.strided:
            return leaf
        if _memory(leaf) in seen:
            return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)
        seen.add(_memory(leaf))
        return leaf.detach()

    return tree_map(distinct, (tuple(args), kwargs))


def remove_idle_dropout(program: ExportedProgram) -> None:
    """Dropout that is not training, or drops nothing, gives its argument itself; tracing makes a copy of it."""
    moved: dict[int, Tensor] = {}  # by the memory of such a copy: the tensor that it should have been

    def move(value: Any) -> Any:
        base = moved.get(_memory(value)) if isinstance(value, Tensor) and value.layout is torch.strided else None
        return value if base is None or base.dtype != value.dtype else base.as_strided(value.shape, value.stride(), value.storage_offset())

    for node in list(program.graph.nodes):
        if moved and "val" in node.meta:
            node.meta["val"] = tree_map(move, node.meta["val"])
        if node.op == "call_function" and node.target in _DROPOUTS and (not node.args[2] or node.args[1] == 0) and _same(node, node.args[0]):
            moved[_memory(node.meta["val"])] = node.args[0].meta["val"]
            node.replace_all_uses_with(node.args[0])
            program.graph.erase_node(node)


def _idle(of_torch: Callable) -> Callable:
    trains = inspect.signature(of_torch).parameters["training"].default

    def dropout(input: Tensor, p: float = 0.5, training: bool = trains, inplace: bool = False) -> Tensor:
        return input if p == 0 or (not training and 0 < p <= 1) else NotImplemented

    return dropout


_FUNCTIONS = [getattr(torch.nn.functional, f"{name}dropout{dims}") for name, dims in (
    ("", ""), ("", "1d"), ("", "2d"), ("", "3d"), ("alpha_", ""), ("feature_alpha_", ""),
)]
IDLE_DROPOUT = {function: _idle(function) for function in _FUNCTIONS}
IDLE_DROPOUT[torch.dropout] = lambda input, p, train: IDLE_DROPOUT[torch.nn.functional.dropout](input, p, train)


def name_outputs(program: ExportedProgram) -> None:
    """Let the signature name the nodes that the outputs are now."""
    output = next(n for n in reversed(program.graph.nodes) if n.op == "output")
    for spec, value in zip(program.graph_signature.output_specs, output.args[0]):
        if isinstance(value, Node) and isinstance(spec.arg, TensorArgument):
            spec.arg.name = value.name


def unite_state(program: ExportedProgram) -> None:
    """Let parameters, buffers and constants of ``program`` that are the same tensor be one argument.

    CaptureError where the model writes to a tensor that overlaps another one without being the same.
    """
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    specs = program.graph_signature.input_specs
    groups: dict[int, list] = {}
    memory = written(program.graph)
    for spec in specs:
        if spec.kind in _STATE and isinstance(spec.arg, TensorArgument):
            value = nodes[spec.arg.name].meta["val"]
            if value.layout is torch.strided:
                groups.setdefault(_memory(value), []).append(spec)
    for group in groups.values():
        first, *others = sorted(group, key=lambda s: _STATE.index(s.kind))
        node = nodes[first.arg.name]
        different = None
        for spec in others:
            other = nodes[spec.arg.name]
            if not _same(node, other):
                different = spec
                continue
            other.replace_all_uses_with(node)
            program.graph.erase_node(other)
            specs.remove(spec)
        if different is not None and any(_memory(nodes[s.arg.name].meta["val"]) in memory for s in group if s in specs):
            raise CaptureError(
                f"the model writes to {first.target} or {different.target}, which share memory; only tensors that are the same "
                f"or share nothing are understood: register one buffer and make the other of it in forward"
            )


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _same(a: Node, b: Node) -> bool:
    x, y = a.meta["val"], b.meta["val"]
    return x.shape == y.shape and x.stride() == y.stride() and x.storage_offset() == y.storage_offset() and x.dtype == y.dtype
