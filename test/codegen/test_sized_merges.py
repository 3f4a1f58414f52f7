"""Calls become one kernel where tensors whose sizes vary are reshaped between them, by sizes that none of the calls takes."""

import pytest
import torch
from torch.export import Dim
from universal_program import SimulatedModel

import inferno
from inferno.schedule.sorts import sorts
from inferno.schedule.universal import universal
from inferno.target import find_target

TARGET = find_target("sm_90a")
F = torch.nn.functional
AUTO = Dim.AUTO


def steps_and_rows(x, stem, up, down, scale):
    """Rows of ``(h + 3) // 4`` times ``(w + 3) // 4`` places, one dimension in the products and two in the norm."""
    y = F.conv2d(x, stem, None, 4, 1).flatten(2).transpose(1, 2)
    return F.layer_norm(y + F.linear(F.gelu(F.linear(y, up)), down), (32,), scale)


def sorted_rows(x):
    values, places = x.flatten(0, 1).sort(-1)
    return values.view(x.shape).flatten(1)[:, 3:], places.view(x.shape)


def norm_of_every_fourth(x, scale):
    return F.layer_norm(x[:, ::4].exp(), (32,), scale)


def softmax_of_places_and_one(x, y):
    """As many as an image has patches and one more, as of a class."""
    z = torch.cat([y, x.flatten(2).transpose(1, 2)], 1)
    return torch.softmax(z * 2, -1), z.square().mean(-1, keepdim=True) * z


CASES = {
    "rows of an image": (
        steps_and_rows, lambda n: ((2 + n % 3, 3, 33 + n, 40 + 3 * n), (32, 3, 3, 3), (64, 32), (32, 64), (32,)), ({0: AUTO, 2: AUTO, 3: AUTO}, *[None] * 4),
    ),
    "every fourth row": (norm_of_every_fourth, lambda n: ((2 + n % 3, 30 + n, 32), (32,)), ({0: AUTO, 1: AUTO}, None)),
    "places and one": (
        softmax_of_places_and_one, lambda n: ((2 + n % 3, 48, 5 + n, 7 + n), (2 + n % 3, 1, 48)), ({0: AUTO, 2: AUTO, 3: AUTO}, {0: AUTO}),
    ),
    "sorted rows": (sorted_rows, lambda n: ((2 + n % 3, 5 + n, 24),), ({0: AUTO, 1: AUTO},)),
}


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", CASES)
def test_right_for_every_size(name):
    function, shapes, dynamic_shapes = CASES[name]
    given = lambda n: tuple(torch.randn(s) for s in shapes(n))  # noqa: E731
    model = SimulatedModel(
        function, given(0), dynamic_shapes, lambda kernel: sorts.choose(kernel, TARGET) or universal.choose(kernel, TARGET),
        passes="fuse-attention-gradients{target=sm_90a},fuse-reductions{target=sm_90a always=1},fuse-sorts{target=sm_90a},"
        "fuse-row-epilogues{target=sm_90a always=1}",
    )
    for n in (0, 3, 8):
        inputs = given(n)
        for ours, eager in zip(torch.utils._pytree.tree_leaves(model(*inputs)), torch.utils._pytree.tree_leaves(function(*inputs))):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", CASES)
def test_what_goes_over_rows_is_one_kernel(name):
    function, shapes, dynamic_shapes = CASES[name]
    made = inferno.compile(function, tuple(torch.randn(s).bfloat16() for s in shapes(0)), dynamic_shapes=dynamic_shapes, target="sm_90a", fallback=False)
    rows = made.explain().rows
    assert not any(row.note for row in rows) and not {row.generator for row in rows} & {"universal", "reductions"}
