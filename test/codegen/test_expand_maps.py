"""Elementwise operations with reshapes between them are one kernel."""

import pytest
import torch
from checks import check
from choices import generators
from piece_cases import rotated_pairs
from universal_program import SimulatedModel

import inferno
from inferno.schedule import assign
from inferno.target import find_target

F = torch.nn.functional
TARGET = find_target("sm_90a")


def _bytes(*shape: int, type_: torch.dtype = torch.uint8) -> torch.Tensor:
    return torch.randint(0, 100, shape).to(type_)


def halves(q, s, z):
    return (torch.stack([q & 15, q >> 4], -1).flatten(1).view(q.shape[0], -1, 16).float() - z) * s


def shifted(q, s):
    return (((q[:, :, None] >> torch.arange(0, 32, 4, dtype=torch.int32)) & 15).view(q.shape[0], -1).float() - 8) * s


def blocks(q, s):
    return (q.view(2, 3, 2, 16).float() * s[:, None, :, None]).view(6, 32).to(torch.float16)


def repeated_blocks(q, s):
    """Scales are repeated along one dimension after the other."""
    return q.float() * s.repeat_interleave(3, 0).repeat_interleave(16, 1)


def shuffled(x, y):
    return F.pixel_shuffle(x, 2) + y


def patches(x):
    return x.view(2, 3, 2, 4, 3, 4).permute(0, 2, 4, 3, 5, 1).reshape(2, -1, 48) * 2 - 1


def channels(x, y):
    return torch.cat([x, F.relu(y)], 1).view(2, 2, 4, 3, 5).transpose(1, 2).reshape(2, 8, 3, 5)


def heads(x, gate):
    return x.transpose(1, 2).reshape(2, 5, 24) * torch.sigmoid(gate)


def windows(w, x):
    return w.view(2, 2, 3, 4, 4, 6).permute(0, 1, 3, 2, 4, 5).reshape(2, 8, 12, 6) + x


def twice(x, y):
    """The middle is flattened, split otherwise and flattened again."""
    a = (x.transpose(0, 1) + 1).reshape(-1).view(8, 15).exp()
    return (a.reshape(4, 30) * y).reshape(2, 2, 30)


CASES = {
    "halves": (halves, lambda: (_bytes(6, 32), torch.randn(6, 4, 1), torch.randn(6, 4, 1))),
    "shifted": (shifted, lambda: (_bytes(6, 8, type_=torch.int32), torch.randn(64))),
    "blocks": (blocks, lambda: (_bytes(6, 32, type_=torch.int8), torch.randn(2, 2))),
    "repeated blocks": (repeated_blocks, lambda: (_bytes(6, 32, type_=torch.int8), torch.randn(2, 2))),
    "shuffled": (shuffled, lambda: (torch.randn(2, 8, 3, 5), torch.randn(2, 2, 6, 10))),
    "patches": (patches, lambda: (torch.randn(2, 3, 8, 12),)),
    "channels": (channels, lambda: (torch.randn(2, 4, 3, 5), torch.randn(2, 4, 3, 5))),
    "heads": (heads, lambda: (torch.randn(2, 4, 5, 6), torch.randn(2, 5, 24))),
    "windows": (windows, lambda: (torch.randn(12, 4, 4, 6), torch.randn(2, 8, 12, 6))),
    "rotated pairs": (rotated_pairs, lambda: (torch.randn(2, 3, 5, 32).bfloat16(), torch.randn(5, 16, 2, 2))),
    "twice": (twice, lambda: (torch.randn(10, 12), torch.randn(4, 30))),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name):
    torch.manual_seed(0)
    model, make = CASES[name]
    args = make()
    assert generators(model, args) == ["elementwise"]
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), expand=True)
    assert len(simulated.program.plan.steps) == 1
    found = check(simulated, model, args)
    assert found.right, str(found)


def scaled_heads(x, s, w):
    """The scaled heads are read twice, as they are and squared."""
    return F.rms_norm((x * s).view(2, 6, 3, 8), (8,), w).transpose(1, 2)


def transposed_heads(x, s, w):
    return torch.softmax((x + s).view(*x.shape[:2], 3, 8).transpose(1, 2), -1) * w


def grouped(x, s, w):
    """With channels last, groups are neighbours of a pixel."""
    return F.silu(F.group_norm(x * s[:1], 2, w, w))


def largest(x, s, w):
    return (x + s).view(2, 6, 3, 8).argmax(-1), (x + s).view(2, 6, 3, 8).sum(-1)


SUMS = {
    "scaled_heads": (scaled_heads, lambda: (torch.randn(2, 6, 24), torch.randn(24), torch.randn(8))),
    "transposed_heads": (transposed_heads, lambda: (torch.randn(4, 40, 24), torch.randn(24), torch.randn(8))),
    "grouped": (grouped, lambda: (torch.randn(2, 8, 5, 6).to(memory_format=torch.channels_last), torch.randn(8), torch.randn(8))),
}


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
@pytest.mark.parametrize("name", SUMS)
def test_reductions_of_what_is_split(name, dtype):
    """What is split for reductions, and for what follows these, is one kernel with them."""
    torch.manual_seed(0)
    model, make = SUMS[name]
    args = tuple(a.to(dtype) for a in make())
    assert inferno.compile(model, args, target="sm_90a").explain().launches == 1
    simulated = SimulatedModel(model, args, choose=lambda k: assign.choose(k, TARGET), passes="fuse-reductions{target=sm_90a}", expand=True)
    assert len(simulated.program.plan.steps) == 1
    found = check(simulated, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int32))
def test_two_reductions_of_what_is_split(dtype):
    torch.manual_seed(0)
    args = tuple((torch.randn(s) * 8).to(dtype) for s in ((2, 6, 24), (24,), (8,)))
    simulated = SimulatedModel(largest, args, choose=lambda k: assign.choose(k, TARGET), passes="fuse-reductions{target=sm_90a}", expand=True)
    found = check(simulated, largest, args)
    assert found.right, str(found)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_group_norms_with_channels_last_move_their_images_once(dtype):
    x = torch.empty(32, 64, 64, 64, dtype=dtype).to(memory_format=torch.channels_last)
    w = torch.empty(64, dtype=dtype)
    report = inferno.compile(lambda x, w: F.silu(F.group_norm(x, 8, w, w)), (x, w), target="sm_90a").explain()
    assert [r.generator for r in report.rows] == ["columns"]
    assert report.rows[0].bytes < 2.01 * x.nbytes


def test_ends_of_contractions_keep_their_loops():
    """What a product's kernel does with its result is not split for what reads it in parts."""
    def model(x, w, scale):
        return F.gelu(x @ w).view(16, 4, 8).transpose(1, 2) * scale

    rows = inferno.compile(model, (torch.randn(16, 64), torch.randn(64, 32), torch.randn(4)), target="sm_90a").explain().rows
    assert any("gelu" in f for f in rows[0].fuses)


@pytest.mark.parametrize(("source", "result", "wanted"), (
    ([6], [2, 3], ([2, 3], [[0, 1]], [[0], [1]])),
    ([4, 6], [8, 3], ([4, 2, 3], [[0], [1, 2]], [[0, 1], [2]])),
    ([2, 3], [6], ([2, 3], [[0], [1]], [[0, 1]])),
    ([4, 6], [6, 4], None),
    ([1, 6], [6, 1], None),
))
def test_common_sizes(source, result, wanted):
    from inferno.passes.expand_maps import refined

    found = refined(source, result)
    assert found == wanted or (wanted is None and found is not None and _multiplies(found, source, result))


def _multiplies(found, source, result) -> bool:
    sizes, within, groups = found
    products = [[torch.tensor([sizes[d] for d in g]).prod().item() for g in of] for of in (within, groups)]
    return products == [list(source), list(result)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_scales_of_blocks_are_not_written(dtype):
    """Nor where a product reads what they scale."""
    def linear(x, q, s):
        return F.linear(x, (q.to(x.dtype) * s.repeat_interleave(128, 0).repeat_interleave(128, 1).to(x.dtype)))

    args = torch.zeros(64, 512, dtype=dtype), torch.zeros(1024, 512, dtype=torch.int8), torch.zeros(8, 4)
    maker, _ = inferno.compile(linear, args, target="sm_90a").explain().rows
    assert maker.generator == "elementwise" and maker.bytes < 1024 * 512 * (1 + dtype.itemsize) + 1000


def test_one_number_that_a_place_of_one_is():
    """It is viewed as a tensor of no dimensions, whose reader has no loops to split."""
    def lowest(places, x):
        return x.index_reduce(1, (places[6:][:1] + 3) % 1, x.narrow(1, 0, 1), "amin", include_self=False)

    args = torch.randint(0, 9, (20,)), torch.randn(11, 1, 11)
    simulated = SimulatedModel(lowest, args, choose=lambda k: assign.choose(k, TARGET), expand=True)
    assert torch.equal(simulated(*args), lowest(*args))
