"""Slices that are all of a tensor whose size varies, and writes of what is there already."""

import pytest
import torch
from torch.export import Dim

import inferno
from inferno.capture import capture
from inferno.capture.capture import copy_graph
from inferno.capture.whole_slices import fold_whole_slices

aten = torch.ops.aten
X, Y = torch.randn(6, 9), torch.randn(6, 9)


def part_added(x, y):
    x[:, 1:] += y[:, 1:]


def part_set(x, y):
    x[:, 2:4] = y[:, :2]


def row_set(x, y):
    x[:, -1] = y[:, 0]


def row_added(x, y):
    x[1] *= y[0]


def parts_of_parts(x, y):
    x[1:][:, :-1] += y[1:, 1:]


def every_other(x, y):
    x[::2] += y[::2]


def both_ends(x, y):
    x[:, :-1] = x[:, 1:].clone()
    x[:, -1] = y[:, 0]


def twice(x, y):
    x[:, 1:] += 1
    x[:, 1:] *= y[:, 1:]


CHANGES = [part_added, part_set, row_set, row_added, parts_of_parts, every_other, both_ends, twice]


def operations(function) -> list:
    graph = copy_graph(capture(function, (X, Y), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},) * 2).graph)
    fold_whole_slices(graph)
    return [n.target for n in graph.nodes if n.target in (aten.slice.Tensor, aten.slice_scatter.default, aten.copy.default)]


@pytest.mark.parametrize(("function", "count"), [(part_added, 3), (part_set, 2), (twice, 4)])
def test_what_is_left(function, count):
    """The part that is read of each tensor, and one write."""
    assert len(operations(function)) == count


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("function", CHANGES)
def test_numbers(function):
    compiled = inferno.compile(function, (X.clone(), Y.clone()), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},) * 2, fallback=False)
    for rows, columns in ((6, 9), (3, 5), (40, 33), (7, 4)):
        x, y = torch.randn(rows, columns), torch.randn(rows, columns)
        given = x.clone()
        compiled(given, y)
        function(x, y)
        torch.testing.assert_close(given, x)
