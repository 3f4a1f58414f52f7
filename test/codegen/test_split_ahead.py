"""A float32 factor that a kernel in front splits: numbers on the simulator, what is emitted, where it is chosen."""

import dataclasses
import re

import pytest
import torch
from kernels import TARGET, build, choose, matmul
from universal_program import SimulatedModel

from inferno.mlir import idle_context, ir
from inferno.schedule.assign import kernels
from inferno.schedule.matmul import presplit
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.presplit import Presplit
from inferno.schedule.spaces import presplit as space
from inferno.target import TARGETS


CASES = {
    "cut": ("mk", "kn", 72, Presplit(128, 80, 2, 2)), "slices": ("mk", "nk", 44, Presplit(64, 48, 2, 2, slices=2, persistent=False)),
    "unaligned": ("km", "nk", 75, Presplit(64, 32, 2, 2, persistent=False)),
    "cluster": ("km", "kn", 96, Presplit(64, 64, 4, 4, split=2, persistent=False)),
}


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", CASES)
def test_numbers(monkeypatch, name):
    lhs, rhs, k, schedule = CASES[name]
    monkeypatch.setitem(TARGETS, "sm_90a", dataclasses.replace(TARGETS["sm_90a"], multiprocessors=2))
    torch.manual_seed(5)
    m, n = 72, 100
    args = [torch.randn((m, k) if lhs == "mk" else (k, m)), torch.randn((k, n) if rhs == "kn" else (n, k)), torch.randn(n)]
    args[1] *= torch.logspace(-12, 12, n) if rhs == "kn" else torch.logspace(-12, 12, n)[:, None]

    def layer(x, w, bias):
        return torch.relu((x if lhs == "mk" else x.t()) @ (w if rhs == "kn" else w.t())) + bias

    run = SimulatedModel(layer, tuple(args), choose=lambda kernel: schedule)
    assert run.program.gpu.count('"inferno.launch"') == 2
    result, expected = run(*args), layer(*(a.double() for a in args))
    assert ((result.double() - expected).norm(dim=0) / expected.norm(dim=0)).max() < 2e-7


@pytest.mark.parametrize("rhs", ["n,k", "k,n"])
def test_neighbours_read_neighbours(rhs):
    """Terms that are innermost come in pairs, others from eight lines at a time; parts go to memory 16 bytes at a time."""
    built = build(matmul(600, 512, 384, "f32", "m,k", rhs), "presplit", Presplit(128, 128, 4, 4))
    split = built.ptx[built.ptx.index("_parts("):].partition(".entry")[0]
    assert re.findall(r"ld\.global[.\w]*", split) == (["ld.global.nc.v2.b32"] * 4 if rhs == "n,k" else ["ld.global.nc.b32"] * 8)
    assert re.findall(r"st\.global[.\w]*", split) == ["st.global.v4.b32"] * 3


def test_every_schedule_of_the_space_is_valid_and_fits():
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(matmul(1536, 1536, 1536))
        own = kernels(module)[0]
        found = [s for _, s in space.space(own, TARGET)]
        assert len(found) > 100 and all(space.valid(own, s, TARGET) for s in found)
        c = parse_contraction(own)
        assert all(s.shared(128 * s.tile_m).total <= TARGET.shared for s in found) and presplit.tile(c) is not None


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("tile_m, tile_n, slices", [(128, presplit.MOST_COLUMNS, 1), (64, 128, 2), (64, 112, 1)])
@pytest.mark.parametrize("lhs", ["m,k", "k,m"])
def test_the_widest_do_not_spill(lhs, tile_m, tile_n, slices):
    built = build(matmul(600, 520, 384, "f32", lhs, "k,n"), "presplit", Presplit(tile_m, tile_n, 2, 2, slices=slices))
    assert not built.resources or built.resources.spills == built.resources.stack == 0


@pytest.mark.parametrize("m, k, n, tile", [
    (1536, 1536, 1536, (128, 144)), (2048, 2048, 2048, (128, 128)), (1792, 1792, 1792, (128, 112)), (512, 512, 512, None),
    (1024, 1024, 1024, None), (128, 4096, 4096, None), (4, 4096, 4096, None),
])
def test_chosen_where_it_is_faster(m, k, n, tile):
    schedule = choose(matmul(m, n, k), "presplit")
    assert (schedule and (schedule.tile_m, schedule.tile_n)) == tile
