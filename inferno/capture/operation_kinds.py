"""The kinds of operations of a captured program: one kind is an operation with its arguments, each tensor by its shape, strides, dtype and device.

Sizes that vary are expressions of symbols there, and so are numbers that are computed of them.
"""

from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, OutputKind, TensorArgument
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._pytree import tree_leaves

from inferno.capture.nodes import argument
from inferno.capture.orders import expression
from inferno.capture.refusal import CHECKS
from inferno.capture.size_nodes import VARYING, is_number
from inferno.capture.views import is_whole


class Unequal(Exception):
    """The program has something in it that can only be decomposed where it stands."""


@dataclass(frozen=True, eq=False)
class Kind:
    """An operation and its arguments, in which a tensor, or a number that varies, is the number of its place among ``inputs``.  Equal by ``key``."""

    key: tuple
    node: Node
    inputs: tuple[Node, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kind) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def check_functional(program: ExportedProgram) -> None:
    """Unequal for a program that is not a function from tensors to tensors, each of memory of its own or a part of another one, whose sizes its inputs tell."""
    signature = program.graph_signature
    if any(not isinstance(s.arg, (TensorArgument, ConstantArgument)) for s in signature.input_specs):
        raise Unequal
    if any(s.kind is not OutputKind.USER_OUTPUT or not isinstance(s.arg, (TensorArgument, ConstantArgument)) for s in signature.output_specs):
        raise Unequal
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if any(map(_depends_on_data, tree_leaves(value))):
            raise Unequal
        if node.op in ("placeholder", "output") or node.target is getitem or (node.op == "call_function" and is_number(value)):
            continue
        if node.op != "call_function" or not isinstance(node.target, OpOverload) or _counts(node):
            raise Unequal
    together: dict[int, list[FakeTensor]] = {}
    for value in (n.meta["val"] for n in program.graph.output_node().all_input_nodes if n.op != "placeholder"):
        if not is_plain(value):
            raise Unequal
        together.setdefault(value.untyped_storage()._cdata, []).append(value)
    if any(len(group) > 1 and not any(is_static(v) and is_whole(v) for v in group) for group in together.values()):
        raise Unequal  # it is in the decomposed graph that there is what they are parts of


def _depends_on_data(value: Any) -> bool:
    """Whether a number, or a size of a tensor, is not told by the arguments of a call."""
    return isinstance(value, (torch.Tensor, *VARYING)) and not is_static(value) and bool(free_unbacked_symbols(value))


def count_assumptions(graph: Graph) -> int:
    """How much is assumed of the sizes of a program that its graph asserts, or has to."""
    values = (v for n in graph.nodes if n.op == "placeholder" for v in tree_leaves(n.meta.get("val")))
    environments = {v.fake_mode.shape_env for v in values if isinstance(v, FakeTensor)}
    return sum(e.num_deferred_runtime_asserts for e in environments if e is not None)


# What says of a norm that it takes the mean and variance of its input, and writes them to the running ones: which its schema does not say.
_TRAINING = ("training", "use_input_stats")


def _counts(node: Node) -> bool:
    """Whether an operation changes running statistics."""
    return argument(node, "running_mean") is not None and any(argument(node, name) for name in _TRAINING)


def is_plain(value: Any) -> bool:
    """Whether a node's value is a tensor of which everything is known but sizes that vary."""
    return type(value) is FakeTensor and value.layout is torch.strided and not value.is_conj() and not value.is_neg()


def is_static(value: Any) -> bool:
    """Whether it is a tensor of which no size varies."""
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and all(type(n) is int for n in _numbers(value))


def _numbers(value: torch.Tensor) -> tuple:
    return (*value.shape, *value.stride(), value.storage_offset())


_CHECKS = {*CHECKS, torch.ops.aten._assert_scalar.default}


def kinds_of(graph: Graph) -> dict[Node, Kind]:
    """The kind of each operation of ``graph``, but for checks; equal ones are one object."""
    known: dict[Kind, Kind] = {}
    kinds = {}
    for node in graph.nodes:
        if node.op == "call_function" and node.target is not getitem and node.target not in _CHECKS and not is_number(node.meta.get("val")):
            inputs: dict[Node, int] = {}
            placed = "strided" in str(node.target)  # what asks where in memory a tensor begins: tokens that a loop takes one by one begin anywhere
            key = node.target, _describe(node.args, inputs), _describe(node.kwargs, inputs), tuple(_input(n, placed) for n in inputs), read_results(node)
            kind = Kind(key, node, tuple(inputs))
            kinds[node] = known.setdefault(kind, kind)
    return kinds


def read_results(node: Node) -> tuple[int, ...]:
    """The numbers of the results that are read: what others are is not always known, as the places of an embedding_bag."""
    return tuple(sorted({u.args[1] if u.target is getitem else 0 for u in node.users if u.users or u.target is not getitem}))


def _describe(value: Any, inputs: dict[Node, int]) -> Any:
    """An argument as a value that is equal for equal arguments only; nodes get numbers in ``inputs``."""
    if isinstance(value, Node):
        return "input", inputs.setdefault(value, len(inputs))
    if type(value) in (bool, int, float, complex):
        return type(value), repr(value)  # -0.0 and 0.0 differ, and so do 1, 1.0 and True
    if value is None or type(value) in (str, torch.dtype, torch.device, torch.layout, torch.memory_format):
        return value
    if isinstance(value, (list, tuple)):
        return "list", tuple(_describe(v, inputs) for v in value)
    if isinstance(value, dict):
        return "dict", tuple((k, _describe(v, inputs)) for k, v in value.items())
    raise Unequal


def _input(node: Node, placed: bool) -> tuple:
    value = node.meta.get("val")
    if isinstance(value, VARYING):
        return type(value), value.node.expr
    if not is_plain(value):
        raise Unequal
    offset = value.storage_offset() if placed else 0
    return value.dtype, value.device, *(tuple(map(expression, n)) for n in (value.shape, value.stride(), (offset,))), value.requires_grad
