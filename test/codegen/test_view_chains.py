"""Programs of views, choices and places that passes once went on for ever with, or gave up: they compile for a GPU, and are right."""

import pytest
import torch
from checks import check, scheduled
from torch.nn import functional as F
from universal_program import SimulatedModel

import inferno


def one_element(x, y, z):
    """Of a slice of one element that is picked twice, all that is read of each place is one number."""
    x = torch.where(x.reshape(-1) > 0, x.reshape(-1), y)[55:56]
    x = x.index_select(0, (torch.arange(2, device=x.device) * 7) % 1)
    return torch.cat((x, z), 0).flip(0)


def chosen_in_another_shape(x, y, z, v, w):
    """A map's result that goes on in another shape is read by a scan."""
    x = torch.cat((x.sum(2, keepdim=True).repeat_interleave(2, 1) - y, z), 2)
    x = x.gather(1, x.argmax(1, keepdim=True)).amax(1) * v
    return torch.where(x > 0, x, w).cumsum(0)


def split_as_before(x, y, z):
    """What is flattened and split again as it was, and then transposed."""
    x, y = (t.reshape(2, -1, t.shape[1]) for t in (x, y))
    picked = x[:, (z[:17, 0].float() * 37).to(torch.int64).remainder(17)]
    return (picked.reshape(-1, 20) + y.reshape(-1, 20)).reshape(2, -1, 20).permute(0, 2, 1).contiguous()


def of_slices(x, y, z):
    return F.layer_norm(torch.stack((x, x * y), 2).flatten(1)[:, 1:].flip(1), (z.shape[0],)) * z


def rows_of_a_table(x, y):
    """Of short rows nothing is read where they would lie."""
    return x[y.abs().mul(100).long() % x.shape[0]].logsumexp(1)


def a_number_of_no_dimension(x, y, z):
    """Halves of one number that stands twice are numbers of no dimension, with what is around them."""
    x = x[:, :3].softmax(0).mean(1, keepdim=True)
    x = (x.gather(0, x.argmax(0, keepdim=True)) + y).repeat_interleave(2, 1)
    p, q = x.chunk(2, 1)
    return F.pad((p * q.sigmoid()).sum(1, keepdim=True), (1, 2)) + z


PROGRAMS = {
    "one element": (one_element, [(8, 24), (192,), (4,)]),
    "chosen in another shape": (chosen_in_another_shape, [(4, 8, 12), (4, 16, 1), (4, 16, 4), (4, 5), (4, 5)]),
    "split as before": (split_as_before, [(34, 20), (34, 20), (34, 20)]),
    "rows of a table": (rows_of_a_table, [(3008, 4), (3008,)]),
    "of slices": (of_slices, [(6, 8), (6, 8), (15,)]), "a number of no dimension": (a_number_of_no_dimension, [(2, 20), (1, 1), (1, 4)]),
}


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_right(name):
    torch.manual_seed(0)
    program, shapes = PROGRAMS[name]
    args = tuple(torch.randn(s) for s in shapes)
    scheduled(program, args)
    found = check(SimulatedModel(program, args, expand=True), program, args)
    assert found.right, str(found)


def test_sums_of_a_vector():
    """What is added up of one dimension has no columns."""
    def program(x):
        return F.pad(F.log_softmax(x - x.std(0, keepdim=True), 0) * 2, (1, 2)).sum([0], keepdim=True)

    assert "generator" in scheduled(program, (torch.empty(1 << 18),)).ir("scheduled")


@pytest.mark.parametrize("target", [None, "sm_90a"])
def test_a_part_of_a_tensor_whose_size_varies(target):
    """Of a dimension of one element, which a flip leaves as it is, and another one that is known at the call."""
    def program(x):
        return x.cumsum(0).flip(2)

    compiled = inferno.compile(program, (torch.randn(7, 5, 1),), dynamic_shapes=({0: torch.export.Dim("n", min=2)},), target=target)
    assert compiled.explain().launches
    for n in (7, 33) if target is None else ():
        found = check(compiled, program, (torch.randn(n, 5, 1),))
        assert found.right, str(found)
