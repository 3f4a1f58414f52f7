"""Numbers that vary are computed of the sizes of a graph's inputs, each once, and are those that they were in the graph that they come from."""

import operator

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from inferno.capture.size_nodes import SizeNodes, UnknownSymbol

aten = torch.ops.aten
GIVEN = torch.randn(6, 10)


@pytest.fixture
def value():
    """A fake tensor of two sizes that vary."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    return mode.from_tensor(GIVEN, symbolic_context=StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2))


def begun(value):
    """A graph with one input, and what makes its numbers."""
    graph = Graph()
    place = graph.placeholder("x")
    place.meta["val"] = value
    sizes = SizeNodes(graph)
    sizes.add_input(place)
    return graph, sizes


def read(value, dim):
    """A size of a tensor that is no input, in a graph of its own."""
    node = Graph().call_function(aten.sym_size.int, (Graph().placeholder("other"), dim))
    node.all_input_nodes[0].meta["val"], node.meta["val"] = value, value.shape[dim]
    return node


def run(graph, *results):
    graph.output(results)
    graph.lint()
    return GraphModule({}, graph)(GIVEN)


@pytest.mark.parametrize("made", [
    lambda x: x, lambda x: x.flatten(), lambda x: x[1:, ::3], lambda x: torch.cat([x, x]).reshape(-1), lambda x: x.new_empty(x.shape[0] // 4, x.shape[1] % 4),
    lambda x: x.new_empty(torch.sym_max(x.shape[0] - 2, x.shape[1] - 5), 2 * x.shape[0] * x.shape[1] ** 2),
])
def test_sizes_of_what_a_graph_makes(value, made):
    with value.fake_mode:
        found = made(value)
    graph, sizes = begun(value)
    results = [sizes.number(read(found, d)) for d in range(found.dim())]
    assert [n.meta["val"].node.expr for n in results] == [s.node.expr for s in found.shape]
    assert all("val" in n.meta for n in graph.nodes) and run(graph, *results) == tuple(made(GIVEN).shape)


def test_numbers_are_computed_once_and_as_they_were(value):
    other = Graph()
    size = other.call_function(aten.sym_size.int, (other.placeholder("y"), 1))
    size.all_input_nodes[0].meta["val"], size.meta["val"] = value, value.shape[1]
    half = other.call_function(operator.truediv, (size, 4))
    half.meta["val"] = value.shape[1] / 4
    again = other.call_function(operator.add, (size, 0))
    again.meta["val"] = value.shape[1] + 0
    graph, sizes = begun(value)
    first, scale, second = map(sizes.number, (size, half, again))
    assert first is second and scale.target is operator.truediv and scale.args == (first, 4)
    assert len(graph.nodes) == 3 and run(graph, first, scale) == (10, 2.5)


def test_a_number_that_is_known_since(value):
    node = read(value, 0)
    assert value.shape[0] == 6  # which is assumed from now on
    _, sizes = begun(value)
    assert sizes.number(node) == 6


def test_a_symbol_that_no_input_has(value):
    with value.fake_mode:
        flat = value.flatten()
    _, sizes = begun(flat)
    with pytest.raises(UnknownSymbol):
        sizes.number(read(value, 0))
