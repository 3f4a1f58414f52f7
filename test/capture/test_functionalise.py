"""Graphs that write in place, made functional without a trace, compute what eager computes."""

import random

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from inferno.capture import export_model
from inferno.capture.decompose import decompose_kinds
from inferno.capture.decompositions import table
from inferno.capture.functionalise import functionalise, is_mutable, writes


def functional(model, *args):
    """A model's graph made functional, and its constants; None for the graph where that is left to torch."""
    program = export_model(model, args).program
    assert any(map(writes, program.graph.nodes))
    constants = program.graph_signature.inputs_to_lifted_tensor_constants.values()
    return functionalise(program.graph), [program.constants[name] for name in constants]


def agrees(model, *args):
    new, constants = functional(model, *args)
    assert new is not None and not any(map(is_mutable, new.nodes))
    taken = [a.clone() for a in args]
    found = GraphModule(nn.Module(), new)(*constants, *args)
    expected = model(*args)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    torch.testing.assert_close(list(found), list(expected), rtol=0, atol=0)
    torch.testing.assert_close(list(args), taken, rtol=0, atol=0)


def through_views(x):
    y = x * 2
    row, flat, later = y[1], y.view(-1), y.t()
    row.add_(1)
    flat[3:5].mul_(2)
    y.unbind(1)[2].copy_(later[0, :4])
    part = y.split(3, 1)[1]
    part[0].neg_()
    return y, row + flat[:6], later * 1, part.sum()


def triangle(x):
    """Forward substitution, as of a gated delta rule's chunks."""
    y = x.clone()
    for i in range(1, 4):
        row, above = y[..., i, :i].clone(), y[..., :i, :i].clone()
        y[..., i, :i] = row + (row.unsqueeze(-1) * above).sum(-2)
    return y + 1


def by_places(x):
    y = torch.zeros_like(x)
    y[torch.tensor([0, 2]), :] = x[:2]
    y[:, 1].index_add_(0, torch.tensor([1, 1]), x[0, :2])
    y.masked_fill_(x > 1, 7.0).clamp_(max=5)
    return y


def of_itself(x):
    y = x + 1
    before = y.exp()
    y += y.flip(0)
    y.sub_(before).div_(y)
    return y.transpose(0, 1).unsqueeze(0).add_(1).relu_(), before


@pytest.mark.parametrize("function", [lambda x: (x + 1).relu_(), through_views, triangle, by_places, of_itself])
def test_functions(function):
    agrees(function, torch.randn(4, 6, dtype=torch.float64))


VIEWS = [
    lambda v, r: v[r.randrange(v.shape[0])] if v.dim() > 1 else v[:], lambda v, r: v[..., r.randrange(v.shape[-1]):], lambda v, r: v[::2],
    lambda v, r: v.transpose(0, -1), lambda v, r: v.unsqueeze(r.randrange(v.dim() + 1)), lambda v, r: v.reshape(-1), lambda v, r: v.flatten(),
    lambda v, r: v.split(2, -1)[0], lambda v, r: v.chunk(2, 0)[-1], lambda v, r: v.unbind(0)[-1] if v.dim() > 1 else v.detach(),
    lambda v, r: v.permute(*reversed(range(v.dim()))), lambda v, r: v.contiguous(), lambda v, r: v.to(v.dtype), lambda v, r: v.narrow(0, 0, 1),
    lambda v, r: v.squeeze(), lambda v, r: v.expand(2, *v.shape), lambda v, r: v.view_as(v), lambda v, r: v.diagonal() if v.dim() == 2 else v,
]
WRITES = [
    lambda v, r: v.add_(r.randrange(3)), lambda v, r: v.mul_(v), lambda v, r: v.copy_(v.flip(0)), lambda v, r: v.relu_(), lambda v, r: v.fill_(2.0),
    lambda v, r: v.sub_(v.sum()), lambda v, r: v.__setitem__(0, 3.0), lambda v, r: v.zero_(),
]


def program(seed):
    """A random one of views and writes; not of views that are taken of what is expanded, which eager does not write to either."""
    def run(x):
        r, known = random.Random(seed), [x + 1]
        for _ in range(12):
            value = known[r.randrange(len(known))]
            if r.random() < 0.6 and value.dim():
                known.append(r.choice(VIEWS)(value, r))
            elif value.dim() and all(value.stride()):
                r.choice(WRITES)(value, r)
            else:
                known.append(value * 2)
        return tuple(v * 1 for v in known)
    return run


def test_random_programs():
    left = 0
    for seed in range(25):
        x = torch.randn(4, 6, dtype=torch.float64)
        old = export_model(program(seed), (x,)).program.graph
        if any(map(writes, old.nodes)) and functionalise(old) is None:
            left += 1
        elif any(map(writes, old.nodes)):
            agrees(program(seed), x)
    assert left < 10  # written through diagonals, repetitions and squeezed dimensions


@pytest.mark.parametrize("function", [
    lambda x: x.relu_(),
    lambda x: (x + 1).bernoulli_(0.5),
    lambda x: x.diagonal().add(1).unsqueeze_(0),
    lambda x: (x * 2).diagonal().add_(1),
    lambda x: torch.add(x, 1, out=torch.empty(4, 6)) + 1,
], ids=["argument", "random", "shape", "view", "out"])
def test_what_is_left_to_torch(function):
    assert functional(function, torch.randn(4, 6))[0] is None


def test_an_exported_program_whose_values_share_no_memory(tmp_path):
    """As one that was loaded."""
    model = torch.export.export(nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True)), (torch.randn(4, 6),))
    torch.export.save(model, tmp_path / "program.pt2")
    graph = torch.export.load(tmp_path / "program.pt2").graph
    shared = next(n.args[0].meta["val"].untyped_storage()._cdata == n.meta["val"].untyped_storage()._cdata for n in graph.nodes if writes(n))
    assert (functionalise(graph) is not None) == shared


@pytest.mark.parametrize("function", [torch.nn.functional.batch_norm, torch.nn.functional.instance_norm])
def test_running_statistics_are_not_lost(function):
    """Of which the operation's schema does not say that they are written to."""
    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("var", torch.ones(4))

        def forward(self, x):
            if function is torch.nn.functional.batch_norm:
                return function(x, self.mean, self.var, training=True).relu()
            return function(x, self.mean, self.var, use_input_stats=True).relu_()

    exported = export_model(Norm(), (torch.randn(3, 4, 5),))
    assert decompose_kinds(exported.program, table()) is None
    assert sum(r.kind == "mutation" for r in exported.capture().signature.results) == 2
