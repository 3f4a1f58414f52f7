"""Contractions on CUDA cores: the schedules chosen, the widths of accesses, registers, and the multiply-adds emitted."""

from dataclasses import replace

import pytest
from contractions import contraction
from kernels import build, choose, matmul

from inferno.schedule.matmul.simt import Simt

LARGE = Simt(128, 128, 16, 8, 8, 1)
SMALL = Simt(8, 32, 256, 8, 1, 8, stages=1, chunk=64)


def test_large_tile():
    built = build(matmul(4096, 4096, 4096), "simt")
    assert built.schedule == LARGE
    assert "[1024, 1, 1]" in built.gpu and "shared = 65536" in built.gpu  # totals of chunks: 64 floats a thread
    # One step of 16 terms: 64 multiply-adds each; 4 loads of 16 bytes from shared memory for each term.
    assert built.count(r"fma\.rn\.f32") == 16 * 64
    assert built.count(r"ld\.shared[\w.:]*v4") >= 16 * 4
    assert {a for a in built.accesses() if a != "ld.global.nc.b32"} == {"ld.global.nc.v4.b32", "st.global.v4.b32"}
    if built.resources:
        assert built.resources.registers <= 128 and built.resources.spills == 0 and built.resources.stack == 0


def test_small_sizes_split_the_sum_inside_the_block():
    built = build(matmul(64, 128, 256), "simt")
    assert built.schedule == SMALL and "[32, 1, 1]" in built.gpu
    assert built.count("bra") == 0 and built.count(r"fma\.rn\.f32") == 256  # 8 rows x 32 terms of a slice, no loop
    if built.resources:
        assert built.resources.spills == 0 and built.resources.shared <= 48 * 1024


@pytest.mark.covering
@pytest.mark.parametrize("lhs", ["m,k", "k,m"])
@pytest.mark.parametrize("rhs", ["k,n", "n,k"])
@pytest.mark.parametrize("schedule", [LARGE, replace(LARGE, tile_m=64, slices=2), Simt(32, 32, 64, 4, 4, 4)])
def test_every_layout_is_read_by_vectors(lhs, rhs, schedule):
    built = build(matmul(256, 512, 256, lhs=lhs, rhs=rhs), "simt", schedule)
    assert built.count(r"ld\.global\.nc\.v4") > 0 and built.count(r"ld\.global\.nc\.b32") == 0
    if built.resources:
        assert built.resources.spills == 0


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("m, n, k, batch, element", [
    (333, 111, 77, 0, "f32"), (1, 300, 500, 0, "f32"), (300, 1, 20, 0, "f32"), (1, 2, 1, 0, "f32"), (65, 33, 40, 3, "f32"),
    (70, 62, 100, 0, "bf16"), (70, 62, 100, 0, "f16"),
])
def test_any_size(m, n, k, batch, element):
    built = build(matmul(m, n, k, element, batch=batch), "simt")
    if built.resources:
        assert built.resources.spills == 0


@pytest.mark.parametrize("batch", [0, 70])
def test_rows_of_sums_are_left_to_reductions(batch):
    assert choose(matmul(1, 1, 500, batch=batch), "simt") is None


def test_half_precision_is_widened_on_the_way_to_shared_memory():
    built = build(matmul(256, 256, 256, "bf16", rhs="n,k"), "simt")
    assert "vector<4xbf16>" in built.gpu and "arith.extf" in built.gpu and "memref<65536xbf16, 1>" in built.gpu


@pytest.mark.parametrize("m, n, k", [(64, 128, 256), (128, 256, 512), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024)])
def test_chosen_schedules_fill_the_gpu(m, n, k):
    s = choose(matmul(m, n, k), "simt")
    blocks = -(-m // s.tile_m) * -(-n // s.tile_n)
    assert blocks >= 128 or (s.tile_m, s.tile_n) == (8, 32)


def test_long_sums_are_cut_into_chunks():
    short, long = (build(matmul(64, 64, k), "simt", replace(LARGE, chunk=64)) for k in (64, 65))
    assert "shared = 0 " in short.gpu and "shared = 65536 " in long.gpu
    assert short.gpu.count("scf.for") == 1 and long.gpu.count("scf.for") == 2
    registers = build(matmul(64, 64, 2000), "simt", Simt(32, 32, 64, 4, 4, 4))
    assert "shared = 0 " in registers.gpu and registers.gpu.count("scf.for") == 2


def test_refuses_what_is_no_contraction_or_not_of_a_type_it_adds():
    assert choose(matmul(64, 64, 64).replace("arith.addf %s, %p", "arith.maximumf %s, %p"), "simt") is None
    assert choose(matmul(64, 64, 64).replace("f32", "f16"), "simt") is None


def test_one_step_does_not_spill():
    """Of straight code the loads of all terms would be started first."""
    for k in (8, 16):
        built = build(contraction({"m": 42336, "n": 128, "k": k}, "mk", "kn", "mn", "f32"), "simt", Simt())
        assert built.count("bra") > 0
        if built.resources:
            assert built.resources.spills == 0
