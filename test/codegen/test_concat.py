"""Concatenations, paddings and what is around them as one elementwise kernel: right for every width, in whole vectors wherever they lie together."""

from dataclasses import replace

import pytest
import torch
from checks import check
from kernels import recorded
from piece_cases import CASES, F, cat, half, neighbours, rope
from torch.export import Dim
from universal_program import SimulatedModel

from inferno.mlir import walk
from inferno.schedule.maps import elementwise, shared_reads
from inferno.schedule.maps.pointwise import parse_pointwise
from inferno.target import find_target

TARGET = find_target("sm_90a")
# A width of vectors each; most cases have lanes that alternate, or that lie across two pieces.
WIDTHS = [(name, (8, 4, 8, 2, 8, 1)[number % 6]) for number, name in enumerate(CASES)]


def simulated(name, vector):
    model, args = CASES[name]

    def choose(kernel):
        own = elementwise.choose(kernel, TARGET)
        return own and replace(own, vector=vector, tile=0)

    return SimulatedModel(model, args, choose=choose, expand=True)


@pytest.mark.covering(most=8)
@pytest.mark.parametrize("name, vector", WIDTHS)
def test_right(name, vector):
    model, args = CASES[name]
    made = simulated(name, vector)
    found = check(made, model, args)
    assert found.right, str(found)


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("name", [n for n in CASES if n.startswith("rope")] + ["of broadcasts"])
@pytest.mark.parametrize("vector, across", [(8, 2), (2, 4)])
def test_reads_what_is_broadcast_once(name, vector, across, monkeypatch):
    monkeypatch.setattr(shared_reads, "_FAR", 1)
    model, args = CASES[name]
    did = []

    def choose(kernel):
        own = elementwise.choose(kernel, TARGET)
        point = parse_pointwise(kernel)
        fits = own and shared_reads.reused(point, across, vector) is not None
        did.append(fits)
        return own and replace(own, vector=vector if fits else 1, across=across if fits else 1, tile=0)

    found = check(SimulatedModel(model, args, choose=choose, expand=True), model, args)
    assert found.right, str(found)
    assert any(did) or across == 4


@pytest.mark.parametrize("name", ["running sums", "recurrence", "turned"])
def test_chains_are_cut(name):
    """Each step reads what is in front of it several times: read in one kernel, so many elements would be 3, or 5, to the power of the steps."""
    model, args = CASES[name]
    reads = []

    def choose(kernel):
        reads.append(len(walk(kernel, "tensor.extract")))
        return elementwise.choose(kernel, TARGET)

    found = check(SimulatedModel(model, args, choose=choose, expand=True), model, args)
    assert found.right, str(found)
    assert len(reads) <= 6 and max(reads) <= 64


def _sizes(*names):
    b, n = Dim("b", min=1, max=64), Dim("n", min=1, max=512)
    return tuple({d: b if s == "b" else n for d, s in enumerate(each) if s in "bn"} for each in names)


VARYING = {
    "rope": (rope, lambda b, n: (half(b, 4, n, 16), half(n, 16), half(n, 16)), _sizes("b.n.", "n.", "n.")),
    "first piece varies": (lambda x, y: cat(x, y, dim=1) * 2, lambda b, n: (half(b, n, 8), half(b, 3, 8)), _sizes("bn.", "b..")),
    "pad": (lambda x: F.pad(x, (0, 0, 2, 1)), lambda b, n: (half(b, n, 8),), _sizes("bn.")),
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", VARYING)
def test_sizes_that_vary(name):
    model, make, sizes = VARYING[name]
    made = SimulatedModel(model, make(2, 5), sizes, choose=lambda kernel: elementwise.choose(kernel, TARGET), expand=True)
    assert len(made.program.plan.steps) == 1
    for b, n in ((2, 5), (3, 8), (1, 1)):
        found = check(made, model, make(b, n))
        assert found.right, str(found)


@pytest.mark.parametrize("lengths, vector", [((512, 256), 8), ((513, 255), 4), ((514, 254), 2), ((101,) * 8, 1), ((102,) * 8, 2), ((96,) * 8, 8)])
def test_vectors_lie_across_few_pieces(lengths, vector):
    choose, chosen = recorded(elementwise.choose)
    SimulatedModel(cat, tuple(torch.empty(4000, n, dtype=torch.bfloat16) for n in lengths), choose=choose, expand=True)
    assert [s.vector for s in chosen] == [vector]


@pytest.mark.parametrize("count, dtype, vector", [(2, torch.bfloat16, 8), (2, torch.float32, 4), (4, torch.bfloat16, 8), (3, torch.float32, 1)])
def test_what_is_stacked_is_read_by_vectors(count, dtype, vector):
    choose, chosen = recorded(elementwise.choose)
    SimulatedModel(lambda *p: torch.stack(p, -1), (torch.empty(2048, 1024, dtype=dtype),) * count, choose=choose, expand=True)
    assert [(s.vector, s.windows) for s in chosen] == [(vector, vector == 1)]


@pytest.mark.parametrize("dtype, vector", [(torch.float32, 4), (torch.bfloat16, 8)])
def test_pairs_are_read_as_they_lie(dtype, vector):
    """A lane's piece is its place's remainder by two, which is the same in every vector: each tensor is read by vectors, and nothing twice."""
    args = torch.randn(2, 3, 40, 128, dtype=dtype), torch.randn(40, 64, dtype=dtype), torch.randn(40, 64, dtype=dtype)
    own = SimulatedModel(neighbours, args, choose=lambda kernel: elementwise.Elementwise(vector=vector), expand=True)
    assert "vector.load" in own.program.gpu and "memref.load" not in own.program.gpu and "arith.minui" not in own.program.gpu
    found = check(own, neighbours, args)
    assert found.right, str(found)


def test_much_computed_beside_a_constant():
    """A branch that all lanes take or none, in rows long enough to leave it out."""
    x = torch.randn(3, 1024)
    own = SimulatedModel(
        lambda x: torch.cat((F.gelu(x) * torch.tanh(x) * torch.sigmoid(x), torch.zeros_like(x))), (x,),
        choose=lambda kernel: elementwise.Elementwise(vector=4), expand=True,
    )
    torch.testing.assert_close(own(x), torch.cat((F.gelu(x) * torch.tanh(x) * torch.sigmoid(x), torch.zeros_like(x))))


@pytest.mark.parametrize("columns, apart", [(2048, True), (512, False)])
def test_what_is_rolled_is_read_where_it_is(columns, apart):
    """In long rows, of which most vectors have no lane that is read from the other end."""
    torch.manual_seed(0)
    x = torch.randn(3, columns)
    own = SimulatedModel(lambda x: x.roll(5, -1), (x,), choose=lambda kernel: elementwise.Elementwise(vector=4), expand=True)
    assert torch.equal(own(x), x.roll(5, -1)) and (own.program.gpu.count("scf.if") >= 2) == apart


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("model", [
    lambda x: x.roll((2, 7), (0, 1)), lambda x: F.pad(x[None], (5, 3), mode="circular")[0], lambda x: torch.cat([x[:, 9:], x[:, :9]], 1) + x,
    lambda x: torch.cat([x[:, 2001:] * 2, x[:, :1000], x[:, 1000:2001].relu()], 1),
])
@pytest.mark.parametrize("dtype, vector", [(torch.float32, 4), (torch.bfloat16, 8)])
def test_pieces_of_one_tensor(model, dtype, vector):
    torch.manual_seed(0)
    x = torch.randn(5, 2104).to(dtype)
    own = SimulatedModel(model, (x,), choose=lambda kernel: elementwise.Elementwise(vector=vector), expand=True)
    assert torch.equal(own(x), model(x))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("model, shapes, dtype, schedule", [
    (lambda x: F.max_pool1d(x, 3), [(16, 64, 4096)], torch.bfloat16, elementwise.Elementwise(256, 2, unroll=4)),
    (lambda x: F.max_pool1d(x, 3), [(16, 64, 4096)], torch.float32, elementwise.Elementwise(256, 2, unroll=2)),
    (lambda x: F.max_pool1d(x, 2), [(16, 64, 4096)], torch.float32, elementwise.Elementwise(256, 4)),
    (neighbours, [(4, 32, 512, 128), (512, 64), (512, 64)], torch.float32, elementwise.Elementwise(256, 4)),
    (neighbours, [(4, 32, 512, 128), (512, 64), (512, 64)], torch.bfloat16, elementwise.Elementwise(256, 8, across=4)),
])
def test_windows_and_pairs(model, shapes, dtype, schedule):
    """Windows that vectors of a row do not hold come lane by lane; what is read of pairs lies as they do."""
    choose, chosen = recorded(elementwise.choose)
    SimulatedModel(model, tuple(torch.empty(s, dtype=dtype) for s in shapes), choose=choose, expand=True)
    assert chosen == [schedule]


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("schedule", [elementwise.Elementwise(64, 2, unroll=4), elementwise.Elementwise(64, 2, unroll=2)])
def test_windows_lane_by_lane(schedule):
    torch.manual_seed(0)
    x = torch.randn(3, 7, 65).to(torch.bfloat16)
    own = SimulatedModel(lambda x: F.max_pool1d(x, 3), (x,), choose=lambda kernel: schedule, expand=True)
    assert torch.equal(own(x), F.max_pool1d(x, 3))
