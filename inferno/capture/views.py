"""Outputs as eager gives them: views of inputs and of each other, and strides.

A captured graph is functional: its results are new and row-major.  In eager an output may be an input or a buffer, or a part of
one; two outputs may share memory; and strides follow from the operations.  Whoever writes to such an output sees the difference.
So an output that shares an argument's memory is taken from the graph and made of the argument at each call.  Of outputs that
share memory with each other the one that holds all of it stays, or the tensor of the graph that they are parts of, and the others
are made of it.  The rest are computed in the order of dimensions that eager's strides have, so that these cost nothing.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C import _dispatch_has_kernel_for_dispatch_key
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, TensorArgument
from torch.fx import Graph, Node

from inferno.capture.nodes import apply
from inferno.capture.orders import expression
from inferno.capture.signature import Result, Signature, View
from inferno.errors import CaptureError

aten = torch.ops.aten


def outputs_as_eager(
    graph: Graph, signature: Signature, exported: ExportedProgram, program: ExportedProgram, values: dict[Node, Any] | None = None,
) -> Signature:
    """Rewrite the results of ``graph``, which are ``program``'s that are tensors; the signature that says how a call's outputs
    are made of them.

    ``exported`` is the program before it was made functional: its fake tensors, or the ``values`` in their place, share memory as eager's tensors
    do.  CaptureError for outputs that overlap where no tensor of the graph holds all of their memory.
    """
    output = next(n for n in reversed(graph.nodes) if n.op == "output")
    results = list(zip(output.args[0], signature.results))
    eager = [n for n in _outputs(exported) if isinstance(n.meta.get("val"), Tensor)]
    if len(eager) != sum(r.kind == "output" for _, r in results) or any(n.meta["val"].layout is not torch.strided for n in eager):
        return signature  # of another maker than torch.export: all that is known is that the outputs are right
    arguments = _arguments(program)
    mutations = [(n, r) for n, r in results if r.kind != "output"]
    given: dict[Node, tuple[Node, Result]] = {}  # an output that is given twice is one tensor
    for node, one in zip(eager, [(n, r) for n, r in results if r.kind == "output"]):
        given.setdefault(node, one)
    rest = _Results(list(given.values()), list(given), values or {})
    placed: dict[Node, int | View] = {}  # a number of ``rest.kept`` or a View
    for i, node in enumerate(given):
        origin = _origin(node)
        if origin.name in arguments and not _is_lazy(node.meta["val"]) and (_is_plain(node) or _is_same(node.meta["val"], origin.meta["val"])):
            placed[node] = _view(node.meta["val"], origin.meta["val"], argument=arguments[origin.name])
        else:
            placed[node] = rest.place(i)
    views = {n: v for n, v in placed.items() if isinstance(v, View)}
    numbers = placed | {n: len(rest.kept) + k for k, n in enumerate(views)}
    numbered = [numbers[n] for n in eager]
    kept = [_in_order(graph, output, *one) for one in rest.kept]
    output.args = (tuple(n for n, _ in (*mutations, *kept)),)
    graph.eliminate_dead_code()
    return dataclasses.replace(
        signature, results=tuple(r for _, r in (*mutations, *kept)), views=tuple(views.values()),
        outputs=tuple((t, numbered[v] if t else v) for t, v in signature.outputs),
    )


class _Results:
    """Which of the outputs that are new in eager are results of the graph, ``kept``, and what the others are views of."""

    def __init__(self, outputs: Sequence[tuple[Node, Result]], eager: Sequence[Node], values: dict[Node, Any]) -> None:
        """``outputs``: the functional graph's, ``eager``: the same ones of the graph whose memory is eager's, and ``values`` of some of these."""
        self.kept: list[tuple[Node, Tensor, Result | None]] = []  # a fake tensor with eager's strides, and the result where sizes vary
        self._nodes, self._values = [n for n, _ in outputs], [values.get(n, n.meta["val"]) for n in eager]
        self._known = [None if _is_plain(n) else r for n, (_, r) in zip(eager, outputs)]
        self._groups: dict[int, list[int]] = {}
        for i, node in enumerate(eager):
            if _origin(node).op != "placeholder" and _is_plain(node) and not _is_lazy(node.meta["val"]):
                self._groups.setdefault(_storage(self._values[i]), []).append(i)
        self._owners: dict[int, tuple[int, Tensor] | None] = {}  # by storage: a number of ``kept``, and how it lies in memory

    def place(self, i: int) -> "int | View":
        value = self._values[i]
        storage = _storage(value)
        group = self._groups.get(storage, [i])
        if len(group) == 1 or i not in group:
            return self._keep(self._nodes[i], value, self._known[i])
        if storage not in self._owners:
            self._owners[storage] = self._owner(group)
        owner = self._owners[storage]
        if owner is None:
            return self._keep(self._nodes[i], value)
        number, base = owner
        value = value if _storage(base) == storage else self._nodes[i].meta["val"]
        return _view(value, base, result=number)

    def _owner(self, group: list[int]) -> tuple[int, Tensor] | None:
        """The result that holds the memory of all outputs of the group; None where they share nothing."""
        for i in group:
            if is_whole(self._values[i]):
                return self._keep(self._nodes[i], self._values[i]), self._values[i]
        origins = {_origin(self._nodes[i]) for i in group}
        base = origins.pop()
        if not origins and base.op == "call_function" and isinstance(base.meta.get("val"), Tensor) and is_whole(base.meta["val"]):
            return self._keep(base, base.meta["val"]), base.meta["val"]
        spans = sorted(_span(self._values[i]) for i in group)
        if any(a[1] > b[0] for a, b in zip(spans, spans[1:])):
            raise CaptureError("outputs of the model share memory of which no single tensor holds all; return copies (.clone()) of them")
        return None

    def _keep(self, node: Node, value: Tensor, known: Result | None = None) -> int:
        self.kept.append((node, value, known))
        return len(self.kept) - 1


def _outputs(program: ExportedProgram) -> list[Node]:
    nodes = {n.name: n for n in program.graph.nodes}
    specs = program.graph_signature.output_specs
    return [nodes[s.arg.name] for s in specs if s.kind is OutputKind.USER_OUTPUT and hasattr(s.arg, "name") and s.arg.name in nodes]


def _arguments(program: ExportedProgram) -> dict[str, int]:
    """Argument numbers by the names of the placeholders."""
    names = [s.arg.name for s in program.graph_signature.input_specs if isinstance(s.arg, TensorArgument)]
    return {name: i for i, name in enumerate(names)}


def _origin(node: Node) -> Node:
    """The node that made the memory of a node's value."""
    memory = set(_storages(node))  # an operation on several tensors may hand out views of each
    while node.op == "call_function":
        source = next((n for n in node.all_input_nodes if memory & set(_storages(n))), None)
        if source is None and _always_views(node.target):  # a graph traced again may give each value a storage of its own
            source, memory = node.args[0], set(_storages(node.args[0]))
        if source is None:
            return node
        node = source
    return node


def _always_views(target: object) -> bool:
    """Whether it is an operation whose result is a view of its first argument; ``reshape`` and ``contiguous`` may copy."""
    return isinstance(target, OpOverload) and target.is_view and not _dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")


def _storages(node: Node) -> list[int]:
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    return [_storage(v) for v in values if isinstance(v, Tensor) and v.layout is torch.strided]


def _storage(value: Tensor) -> int:
    return value.untyped_storage()._cdata


def _is_plain(node: Node) -> bool:
    """Whether all numbers that say how the value lies in memory are known.  A value whose size varies is a result of its own."""
    return all(isinstance(n, int) for n in _numbers(node.meta["val"]))


def _is_lazy(value: Tensor) -> bool:
    """Whether memory holds something else than the value, the conjugate or what is to be negated: such an output is a result of its own."""
    return value.is_conj() or value.is_neg()


def _is_same(value: Tensor, base: Tensor) -> bool:
    """Whether both are one tensor, also where sizes vary; comparing these themselves would be a guard."""
    numbers = [[*map(expression, _numbers(t))] for t in (value, base)]
    return numbers[0] == numbers[1] and value.dtype == base.dtype


def _numbers(value: Tensor) -> tuple:
    return *value.shape, *value.stride(), value.storage_offset()


def is_whole(value: Tensor) -> bool:
    """Whether the tensor is all of its storage, each element once."""
    size = value.untyped_storage().nbytes()
    return value.storage_offset() == 0 and _is_dense(value) and isinstance(size, int) and value.numel() * value.element_size() == size


def _is_dense(value: Tensor) -> bool:
    step = 1
    for d in reversed(_order(value)):
        if value.shape[d] != 1 and value.stride(d) != step:
            return False
        step *= value.shape[d]
    return True


def _order(value: Tensor) -> list[int]:
    """The dimensions from the one with the largest stride to the smallest."""
    strides, rank = value.stride(), value.dim()
    return sorted(range(rank), key=lambda d: (-strides[d], -value.shape[d]))


def _span(value: Tensor) -> tuple[int, int]:
    """The first byte and the one behind the last."""
    last = sum((n - 1) * s for n, s in zip(value.shape, value.stride())) + 1 if value.numel() else 0
    return value.storage_offset() * value.element_size(), (value.storage_offset() + last) * value.element_size()


def _view(value: Tensor, base: Tensor, argument: int = -1, result: int = -1) -> View:
    if _is_same(value, base):
        return View(argument, result, True, (), (), 0, value.dtype, ())
    offset = value.storage_offset() * value.element_size() - base.storage_offset() * base.element_size()
    return View(argument, result, False, tuple(value.shape), value.stride(), offset, value.dtype, base.stride())


def _in_order(graph: Graph, output: Node, node: Node, value: Tensor, known: Result | None) -> tuple[Node, Result]:
    """The node in the memory order of eager's value, without repetitions; what is not all of its memory is made compact.  A result
    that is ``known``, since its sizes vary, is left as it is."""
    shape, dtype = tuple(value.shape), value.dtype
    if known is not None or value.is_contiguous() or not value.numel():
        return node, known or Result("output", -1, shape, dtype)
    order = _order(value)
    repeated = [d for d in range(value.dim()) if value.stride(d) == 0 and value.shape[d] > 1]
    with graph.inserting_before(output):
        for d in repeated:
            node = apply(node, aten.slice.Tensor, d, 0, 1)
        if order != sorted(order):
            node = apply(node, aten.permute.default, order)
    strides, step = [0] * len(order), 1
    for d in reversed(order):
        if d not in repeated:
            strides[d] = value.stride(d) if shape[d] == 1 else step
            step *= shape[d]
    # Dimensions of size 1 may have been moved in memory that is row-major all the same.
    given = None if order == sorted(order) and math.prod(shape) == step and _row_major(shape, strides) else tuple(strides)
    return node, Result("output", -1, shape, dtype, given)


def _row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    for n, s in zip(reversed(shape), reversed(strides)):
        if n != 1 and s != step:
            return False
        step *= n
    return True
