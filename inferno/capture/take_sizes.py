"""Graphs that take sizes as integers, as Dynamo's and AOTAutograd's do, as graphs of tensors alone.

An integer that is a size of one of the graph's tensors is read there.  Any other comes as the first size of a tensor without
elements, which the caller makes of it: ``torch.empty((size, 0))``; one that is no more than 0, as what is cut off in the gradient of a
padding, as that of its negative.
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import statically_known_true

from inferno.capture.signature import Argument
from inferno.capture.symbols import SymbolTable
from inferno.capture.unread_sizes import name_unread
from inferno.errors import UnsupportedOperation
from inferno.told_sizes import read_off

aten = torch.ops.aten


@dataclass(frozen=True)
class Source:
    """What an argument of the program is made of: the value of the graph's placeholder number ``place``, a tensor, or, where
    ``is_size``, an integer that is to be the first size of an empty tensor, ``torch.empty((value, 0))``, or its negative if ``negated``."""

    place: int
    is_size: bool = False
    negated: bool = False


def take_sizes(graph: torch.fx.Graph, ranges: Mapping[Any, Any]) -> tuple[tuple[Argument, ...], tuple[Source, ...]]:
    """Rewrite ``graph`` in place so that its placeholders are tensors; the program's arguments, and what each is made of.

    ``ranges``: what torch's symbols may be where that is not what torch takes them for.
    Sizes that vary are expressions of symbols in the arguments' shapes.  UnsupportedOperation where a size is needed that
    none of the inputs tells, or that depends on the data.
    """
    places = [n for n in graph.nodes if n.op == "placeholder"]
    numbers = [n for n in places if isinstance(n.meta["val"], torch.SymInt)]
    tensors = [n for n in places if isinstance(n.meta["val"], torch.Tensor)]
    if len(numbers) + len(tensors) < len(places):
        raise UnsupportedOperation("an input of the graph is neither a tensor nor a size")
    sources = {n: Source(i) for i, n in enumerate(places) if n in tensors}
    first = next(n for n in graph.nodes if n.op != "placeholder")
    for number in numbers:
        if _read(graph, number, tensors, first) or not number.users:
            graph.erase_node(number)
            continue
        negated = _to_tensor(graph, number, first)
        sources[number] = Source(places.index(number), is_size=True, negated=negated)
    table = SymbolTable(dict(ranges))
    kept = [n for n in places if n in sources]
    shapes = [table.shape(n.meta["val"]) for n in kept]
    shapes = name_unread(shapes, len(table.values))
    arguments = tuple(Argument(n.name, "input", shape, n.meta["val"].dtype) for n, shape in zip(kept, shapes))
    read_off([a.shape for a in arguments])
    return arguments, tuple(sources[n] for n in kept)


def _read(graph: torch.fx.Graph, number: torch.fx.Node, tensors: list[torch.fx.Node], before: torch.fx.Node) -> bool:
    """Read the integer off a tensor; whether one has it as a size."""
    wanted = number.meta["val"].node.expr
    for tensor in tensors:
        for dim, size in enumerate(tensor.meta["val"].shape):
            if isinstance(size, torch.SymInt) and size.node.expr == wanted:
                with graph.inserting_before(before):
                    read = graph.call_function(aten.sym_size.int, (tensor, dim))
                read.meta = {**number.meta, "val": size}
                number.replace_all_uses_with(read)
                return True
    return False


def _to_tensor(graph: torch.fx.Graph, number: torch.fx.Node, before: torch.fx.Node) -> bool:
    """Let the placeholder be a tensor whose first size is the integer, or, as is returned, its negative; torch guards a sign that is not known."""
    value = number.meta["val"]
    negated = not statically_known_true(value >= 0) and (statically_known_true(value <= 0) or bool(value < 0))
    size = -value if negated else value
    mode = detect_fake_mode([n.meta["val"] for n in graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)])
    with mode or FakeTensorMode(shape_env=size.node.shape_env):
        tensor = torch.empty((size, 0), device="cpu")
    with graph.inserting_before(before):
        read = graph.call_function(aten.sym_size.int, (number, 0))
        read.meta = {**number.meta, "val": size}
        given = graph.call_function(operator.mul, (read, -1)) if negated else read
        given.meta = {**number.meta}
    number.replace_all_uses_with(given, delete_user_cb=lambda user: user is not read)
    number.meta = {"val": tensor}
    return negated
