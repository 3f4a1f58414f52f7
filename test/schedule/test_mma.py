"""What is chosen by mma.sync, for float64 above all."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))

from contractions import contraction

from inferno.mlir import idle_context, ir
from inferno.schedule.assign import kernels
from inferno.schedule.matmul import mma
from inferno.schedule.matmul.parser import parse_contraction
from inferno.target import find_target

TARGET = find_target("sm_90a")


@pytest.mark.parametrize("m, k, n, together", [(256, 4096, 4096, 2), (1024, 1024, 1024, 2), (512, 512, 512, None), (4096, 4096, 4096, None)])
def test_blocks_are_dealt_out(m, k, n, together):
    """Of two tiles for each multiprocessor in 64x64 no third block fits; where there are many rounds, or one block is the share, slots are as usual."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(contraction({"m": m, "n": n, "k": k}, "mk", "kn", "mn", "f32").replace("f32", "f64"))
        kernel = kernels(module)[0]
        found = [s for _, s in mma.candidates(kernel, parse_contraction(kernel), TARGET) if (s.tile_m, s.tile_n, s.split) == (64, 64, 1)]
    assert found[0].stages == 4 and TARGET.shared // found[0].shared == 3
    assert TARGET.shared // found[-1].shared == (together or 3)


def test_float64_of_two_tiles_each_is_estimated_shorter_where_dealt_out():
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(contraction({"m": 256, "n": 4096, "k": 4096}, "mk", "kn", "mn", "f32").replace("f32", "f64"))
        kernel = kernels(module)[0]
        times = [t for t, s in mma.candidates(kernel, parse_contraction(kernel), TARGET) if (s.tile_m, s.tile_n, s.split) == (64, 64, 1)]
    assert times[-1] < 0.9 * times[0]  # 180 us and 242 on an H200


@pytest.mark.parametrize("n", [1112, 1111])
def test_results_that_are_no_pairs_cost_what_they_take(n):
    """Few terms make more than is read, and Hopper's own tiles write odd lines by words, after a copy of the factor."""
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(contraction({"m": 5672, "n": n, "k": 16}, "km", "kn", "mn", results=("bf16",), body="%y0 = arith.truncf %s : f32 to bf16"))
        kernel = kernels(module)[0]
        c = parse_contraction(kernel)
        assert mma.choose(kernel, TARGET) is None
        times = {s: t for t, s in mma.candidates(kernel, c, TARGET)}
    assert (times[mma.Mma(128, 64, 2, 2, 64, 5)] > 25) == (n == 1111)
