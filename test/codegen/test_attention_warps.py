"""Attention of few float32 queries, whose warps have keys of their own: numbers on the simulator, which cuts sums off as the tensor core does, the structure
of what is emitted, that ptxas takes it without spills, and where it is chosen."""

import pytest
import torch
from attention_cases import with_sinks
from attention_program import share_two_multiprocessors, simulate, simulated
from checks import assert_close_to_float64
from kernels import build, check_arrivals
from test_attention import TARGET, heads, kernel_of
from torch.export import Dim
from universal_program import _fuse

from inferno.capture import capture
from inferno.errors import CompileError
from inferno.mlir import ir, idle_context
from inferno.schedule.assign import kernels
from inferno.schedule.attention.attention import choose
from inferno.schedule.attention.parser import parse_attention
from inferno.schedule.attention.resources import fits
from inferno.schedule.attention.schedule import Attention
from inferno.schedule.attention.support import read
from inferno.schedule.attributes import from_attribute, to_attribute
from inferno.schedule.composite.size_ranges import BySize
from inferno.schedule.spaces import attention as spaces

F = torch.nn.functional
sdpa = F.scaled_dot_product_attention


def few(rows=8, keys=32, stages=2, **more):
    return Attention(1, keys, stages, turns=False, staged=False, warp_rows=rows, **more)


def normal(queries, keys, size, width=0, of=2, shared=2, batch=1):
    torch.manual_seed(0)
    return torch.randn(batch, of, queries, size), torch.randn(batch, shared, keys, size), torch.randn(batch, shared, keys, width or size)


def grouped(q, k, v):
    return sdpa(q, k, v, enable_gqa=True)


def right(function, args, schedule, early=False):
    assert_close_to_float64(simulate(function, args, schedule, early), function, args)


CASES = [  # queries, keys, columns, columns of values, heads, of keys, schedule
    (1, 100, 32, 32, 2, 2, few()),
    (8, 128, 64, 64, 2, 1, few(keys=64)),  # no block overhangs, no row is missing; heads that share keys are tiles of their own
    (3, 70, 40, 72, 2, 2, few(8, 32, 3)),  # lines that are not whole, of both
    (12, 150, 24, 8, 2, 2, few(16, 64)),
    (16, 40, 8, 40, 1, 1, few(16)),
    (1, 200, 32, 32, 8, 2, few(keys=128)),  # heads that share keys are rows
    (20, 90, 16, 16, 2, 2, few()),  # several tiles of rows, the last one not whole
    (2, 60, 136, 200, 1, 1, few()),  # more columns than others take
    (5, 300, 16, 16, 2, 2, few(parts=2)), (5, 300, 16, 16, 2, 2, few(splits=3)),
    (16, 500, 16, 16, 1, 1, few(16, parts=2, splits=2)), (2, 400, 16, 16, 2, 2, few(parts=2, splits=2)),
]


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("queries, keys, size, width, of, shared, schedule", CASES)
def test_as_exact_as_eager(queries, keys, size, width, of, shared, schedule):
    right(grouped, normal(queries, keys, size, width, of, shared), schedule, early=queries % 2 == 0)


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("shares", [{}, {"splits": 2}], ids=["", "splits"])
def test_errors_do_not_grow_with_the_blocks(shares):
    right(sdpa, normal(3, 2048, 16, of=1, shared=1), few(**shares))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("queries, shared", [(1, 3), (5, 3)])
def test_several_tiles(monkeypatch, queries, shared):
    """Of two multiprocessors, whose next tile's keys come while the one in front is added up."""
    share_two_multiprocessors(monkeypatch)
    right(grouped, normal(queries, 70, 24, of=3, shared=shared, batch=2), few(order="static"), early=queries == 5)


def by_hand(q, k, v, mask):
    scores = q @ k.transpose(-1, -2) / 4
    return torch.softmax(scores.masked_fill(mask, -torch.inf), -1) @ v


def biased(q, k, v, bias):
    return sdpa(q, k, v, bias) * 2 + 1


def behind(q, k, v):
    """The last keys of a cache, a window of them."""
    i, j = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], torch.arange(k.shape[2])
    return sdpa(q, k, v, attn_mask=(j <= i) & (i - j < 50))


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("function, more, schedule", [
    (by_hand, [torch.arange(130) % 3 == 0], few()),
    (by_hand, [torch.rand(1, 2, 4, 130) < 0.4], few(16, splits=2)),
    (biased, [torch.linspace(-3, 3, 4 * 130).reshape(4, 130)], few()),  # with an epilogue, whose threads have rows of their own
    (biased, [torch.linspace(-3, 3, 130)[None]], few(16, 64, parts=2)),
    (behind, [], few()), (behind, [], few(splits=2)),
])
def test_scores_and_results(function, more, schedule):
    right(function, (*normal(4, 130, 16), *more), schedule)


def test_rows_without_a_key():
    """And sinks, which the first warp of the first block has."""
    args = normal(3, 70, 16)
    right(lambda q, k, v: sdpa(q, k, v, attn_mask=torch.tensor([[False], [True], [True]]).expand(3, 70)), args, few())
    args = (*args, torch.tensor([0.5, 2.0]))
    found, wanted = simulate(with_sinks, args, few(splits=2)).double(), with_sinks(*(x.double() for x in args))
    assert (found - wanted).norm() / wanted.norm() < 2.5e-7  # (eager on a CPU has 7e-8, and a sink that is left out or added twice 0.26 and more)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("rows", [8, 16])
def test_what_is_no_number(rows):
    """Infinities, NaN and what the nearest TF32 number is infinite for come out where eager has them."""
    q, k, v = normal(12, 100, 24)
    inf, most = float("inf"), torch.finfo(torch.float32).max
    q[0, 0, 3, 1], q[0, 1, 8, 0], q[0, 1, 9, 0] = float("nan"), inf, most
    q[0, 0, 4, 2], q[0, 0, 5, 2], q[0, 0, :, 3] = 0, 2, 1
    k[0, 0, 5, 2], k[0, 1, 9, 0], k[0, 0, 70, 3] = inf, -inf, -inf  # the last one's weight is 0
    v[0, 1, 7, 3], v[0, 1, 11, 4], v[0, 1, 13, 5], v[0, 1, 98, 6] = inf, -inf, most, float("nan")
    found, wanted = simulate(sdpa, (q, k, v), few(rows)), sdpa(q, k, v)
    assert wanted.isinf().any() and wanted.isfinite().any() and wanted.isnan().any()
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_numbers_of_any_size():
    """Small ones, and scores that are far from each other."""
    q, k, v = normal(2, 90, 16)
    right(sdpa, (q * 100, k, v * 1e-30), few())
    right(sdpa, (q * 1e-18, k * 1e18, v * 1e30), few(16))


@pytest.mark.thorough
def test_sizes_that_vary():
    """One kernel is right for any number of sequences, queries and keys."""
    batch, queries, keys = Dim("b", min=1, max=8), Dim("s", min=1, max=64), Dim("t", min=1, max=512)
    of_keys = {0: batch, 2: keys}
    model = simulated(sdpa, normal(3, 90, 16, batch=2), few(splits=2), dynamic_shapes=({0: batch, 2: queries}, of_keys, of_keys))
    for sizes in ((1, 3, 90), (2, 1, 7), (1, 11, 200)):
        args = normal(sizes[1], sizes[2], 16, batch=sizes[0])
        assert_close_to_float64(model(*args), sdpa, args)


@pytest.mark.thorough
@pytest.mark.covering(most=2)
# What is emitted.

@pytest.mark.parametrize("queries, size, schedule", [
    (1, 128, few(8, 64, 3)), (16, 128, few(16, 32, 5)), (1, 64, few(8, 128, 3)), (16, 64, few(16, 64, 5)), (8, 256, few(8, 32, 2)),
])
def test_registers(queries, size, schedule):
    built = build(kernel_of(sdpa, heads(queries, 4096, size, dtype=torch.float32)), "attention", schedule)
    assert built.gpu.count('"inferno.launch"') == 1 and built.gpu.count('element = "f32"') == 3
    # Scores of the first block, of the loop's, and sums of its values and of the last ones'.
    each = 2 * size * schedule.warp_keys // 64 * (2 if schedule.warp_rows == 8 else 3)
    assert built.count(r"mma\.sync\.aligned\.m16n8k8") == 2 * each and "wgmma" not in built.ptx
    assert check_arrivals(built.ptx)[1] > 0
    assert built.resources is None or built.resources.spills == 0


def parsed(function, args, check):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(kernel_of(function, args))
        kernel = kernels(module)[0]
        check(kernel, *read(kernel, TARGET))


def test_what_fits():
    def check(kernel, a, _):
        assert fits(few(), a, TARGET) and fits(few(16, 64, 2, splits=4), a, TARGET)
        assert not fits(few(keys=48), a, TARGET)  # a warp's would be no whole 8
        assert not fits(few(order="dynamic"), a, TARGET) and not fits(few(pieces=3, overlap=False), a, TARGET) and not fits(few(stages=20), a, TARGET)
        space = [s for _, s in spaces.space(kernel, TARGET)]
        assert choose(kernel, TARGET) in space and any(s.warp_rows for s in space) and any(s.cut for s in space)

    parsed(sdpa, heads(4, 4096, 64, dtype=torch.float32), check)
    parsed(sdpa, heads(4, 4096, 64), lambda kernel, _, tiling: assert_others(choose(kernel, TARGET), tiling))


def test_what_the_copy_engine_cannot_bring():
    """Keys innermost, or lines that are no multiples of 16 bytes, are left to others."""
    def transposed(q, k, v):
        return sdpa(q, k.transpose(-1, -2), v)

    def check(kernel, a, tiling):
        assert_others(choose(kernel, TARGET), tiling)
        assert not spaces.valid(kernel, few(), TARGET) and spaces.valid(kernel, choose(kernel, TARGET), TARGET)

    q, k, v = heads(4, 512, 64, dtype=torch.float32)
    parsed(transposed, (q, k.transpose(-1, -2).contiguous(), v), check)
    with pytest.raises(CompileError):
        build(kernel_of(transposed, (q, k.transpose(-1, -2).contiguous(), v)), "attention", few())


def assert_others(schedule, tiling):
    assert not schedule.warp_rows and tiling.whole is None


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("batch, of, shared, queries, keys, size, rows", [
    (4, 32, 32, 1, 4096, 128, 8), (1, 8, 8, 1, 512, 64, 8), (8, 32, 8, 4, 4096, 128, 16), (1, 8, 8, 16, 32768, 128, 16), (2, 8, 8, 1, 8192, 256, 8),
    (8, 12, 12, 32, 32, 64, 0), (2, 8, 8, 512, 512, 128, 0),
])
def test_where_it_is_chosen(batch, of, shared, queries, keys, size, rows):
    args = [torch.empty(batch, h, n, size) for h, n in ((of, queries), (shared, keys), (shared, keys))]
    parsed(grouped, args, lambda kernel, a, _: assert_rows(choose(kernel, TARGET), rows))


def assert_rows(schedule, rows):
    assert schedule.warp_rows == rows and from_attribute(to_attribute(schedule)) == schedule


@pytest.mark.thorough
def test_what_is_chosen_where_sizes_vary():
    """A cache that grows, and any number of queries, of which up to 16 have a schedule of their own; of more and of 256 columns there is none."""
    batch, queries, keys = Dim("b", min=1, max=64), Dim("s", min=1, max=4096), Dim("t", min=1, max=8192)
    of_keys = {0: batch, 2: keys}
    found = chosen_by_size(heads(4, 1000, 64, dtype=torch.float32), ({0: batch}, of_keys, of_keys))
    assert all(s.warp_rows for s in schedules(found))
    found = chosen_by_size(heads(4, 1000, 64, dtype=torch.float32), ({0: batch, 2: queries}, of_keys, of_keys))
    assert found.limit == 16 and found.small.warp_rows and not any(s.warp_rows for s in schedules(found.large))
    assert chosen_by_size(heads(4, 1000, 256, dtype=torch.float32), ({0: batch, 2: queries}, of_keys, of_keys)) is None


def chosen_by_size(args, dynamic_shapes):
    text, _ = _fuse(capture(sdpa, args, dynamic_shapes=dynamic_shapes), "fuse-attention{target=sm_90a always=1}", True)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        kernel, = (k for k in kernels(module) if parse_attention(k) is not None)
        return choose(kernel, TARGET)


def schedules(found):
    return [*schedules(found.small), *schedules(found.large)] if isinstance(found, BySize) else [found]
