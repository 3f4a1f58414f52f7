"""Attention as one kernel on Hopper's tensor cores: the structure of what is emitted, and that ptxas takes it without spills."""

import re

import pytest
import torch
from attention_cases import with_sinks
from attention_program import share_two_multiprocessors, simulate
from checks import assert_close_to_float64
from kernels import TARGET, build
from test_wgmma import assembled, products
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
from inferno.schedule.spaces import attention as spaces
from inferno.schedule.tiles.tiling import BEHIND

F = torch.nn.functional


def empty(*shape, dtype=torch.bfloat16):
    return torch.zeros(shape, dtype=dtype)


def heads(queries=512, keys=512, size=128, width=0, of=4, shared=4, dtype=torch.bfloat16):
    """q, k and v of two sequences."""
    return empty(2, of, queries, size, dtype=dtype), empty(2, shared, keys, size, dtype=dtype), empty(2, shared, keys, width or size, dtype=dtype)


def kernel_of(function, args) -> str:
    """The kernel that attention becomes, as a module of its own."""
    text, _ = _fuse(capture(function, args), "fuse-attention{target=sm_90a always=1}")
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        found, = (k for k in kernels(module) if parse_attention(k) is not None)
        return f"module {{\n{found.operation.get_asm(use_local_scope=True)}\n}}"


def chosen(text):
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        return choose(kernels(module)[0], TARGET)


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("size, width", [(8, 8), (40, 40), (72, 72), (80, 48), (96, 96), (128, 128), (192, 128), (256, 256)])
def test_head_sizes(size, width):
    built = build(kernel_of(causal if size % 64 else F.scaled_dot_product_attention, heads(500, 777, size, width)), "attention")
    s = built.schedule
    found = products(built)
    scores = f"m64n{s.keys}k16.f32.bf16"
    assert scores in found and f"m64n{width}k16.f32.bf16" in found
    if s.keys != width:
        assert found.count(scores) % -(-size // 16) == 0 and found.count(f"m64n{width}k16.f32.bf16") % (s.keys // 16) == 0
    # 16 columns each; of what has no whole lines of 64 bytes the last line is filled up.
    assert built.count("stmatrix") == (width // 16 if width % 32 == 0 else 4 * -(-width // 64)) and not built.accesses("global")
    if size < 256:
        assembled(built)  # else some addresses wait in memory for the end of a tile
    assert built.resources is None or built.resources.spills <= 128


def test_the_main_loop():
    built = build(kernel_of(F.scaled_dot_product_attention, heads(1024, 4096)), "attention", Attention())
    # The first scores, and the loop's; its values, and the last ones.
    assert products(built) == ["m64n128k16.f32.bf16"] * 32
    # 64 exponentials a thread and two of what was, which have no product fused, and none of two of these in front of the loop.
    assert built.count(r"ex2\.approx\.ftz\.f32") == 64 + 66 and built.count(r"fma\.rn\.f32") == 64 + 66
    assert built.count(r"setp\.\w+\.s32") == 0 and built.count("setmaxnreg") == 2
    assert built.count(r"cp\.async\.bulk\.tensor\.3d\.shared") == 12 and built.count(r"cp\.async\.bulk\.tensor\.3d\.global") == 2
    assembled(built)
    if built.resources:
        assert built.resources.registers == 168


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("keys, cut", [(128, 1), (64, 2)])
def test_only_blocks_that_the_band_cuts_are_masked(keys, cut):
    built = build(kernel_of(causal, heads(1024, 1024)), "attention", Attention(keys=keys))
    # One block of keys along the diagonal, or a loop over some more.
    assert built.count(r"setp\.(?:gt|le|lt|ge)\.s32") - cut * keys // 2 in range(0, 8)
    assembled(built)


@pytest.mark.thorough
def test_windows_skip_blocks():
    def window(q, k, v):
        i, j = torch.arange(1024)[:, None], torch.arange(1024)[None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=(j <= i) & (j > i - 512))

    text = kernel_of(window, heads(1024, 1024))
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        band = parse_attention(kernels(module)[0]).band
    assert (band.low, band.high) == (-511, 0)
    assembled(build(text, "attention"))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("mask, loads", [
    (empty(500, 777), "ld.global.nc.b16"), (empty(2, 4, 500, 768), "ld.global.nc.b32"), (empty(4, 500, 776, dtype=torch.float32), ".b32"),
    (empty(2, 1, 1, 768, dtype=torch.bool), "ld.global.nc.v2.b8"),
])
def test_masks_are_read_tile_by_tile(mask, loads):
    mask = mask.float() if loads == ".b32" else mask
    q, k, v = heads(500, mask.shape[-1], dtype=torch.float16 if loads == ".b32" else torch.bfloat16)

    def masked(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype) if mask.dtype == torch.float32 else mask)

    built = build(kernel_of(masked, (q, k, v, mask)), "attention")
    assert any(loads in a for a in built.accesses()) and not any(a.startswith("st") for a in built.accesses())
    assembled(built)


def test_heads_share_keys():
    def grouped(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    built = build(kernel_of(grouped, heads(of=32, shared=8)), "attention")
    assert built.gpu.count('"inferno.launch"') == (2 if built.schedule.order == "dynamic" else 1)
    assert "tensor<2x32" not in built.gpu
    assembled(built)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("order", ["single", "static", "dynamic"])
def test_orders(order):
    built = build(kernel_of(causal, heads(2048, 2048, of=16, shared=16)), "attention", Attention(order=order))
    assert built.gpu.count('"inferno.launch"') == 1 + (order == "dynamic") and built.count(r"atom\.\w*") == 2 * (order == "dynamic")
    # Every lane reads the tile's number, and one of each warp says that its place is free.
    assert order != "dynamic" or re.search(r"bar\.warp\.sync[^\n]*\n[^\n]*bra[^\n]*\n[^\n]*mbarrier\.arrive", built.ptx)
    blocks = re.findall(r"grid = \[(\d+)", built.gpu)[-1]
    assert blocks == {"single": "512"}.get(order, "132")
    assembled(built)


@pytest.mark.parametrize("queries, order", [(50, "static"), (64, "static"), (300, "single")])
def test_tiles_that_a_band_leaves_equally_long_are_begun_as_others_are(queries, order):
    """A head of one tile: the next one's copies begin while this one is computed.  Longer heads of many columns have tiles of different lengths."""
    assert chosen(kernel_of(causal, heads(queries, queries, 192, of=128, shared=128))).order == order


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("schedule", [
    Attention(3, 128), Attention(1, 128, turns=False), Attention(overlap=False), Attention(turns=False),
    Attention(keys=176, apart=False), Attention(keys=160),
])
def test_schedules(schedule):
    size = 64 if schedule.consumers == 3 else 128
    built = build(kernel_of(causal, heads(1024, 1000, size)), "attention", schedule)
    assert built.count(r"barrier\.cta\.arrive|bar\.arrive") > 0 or not schedule.turns
    assembled(built)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("queries, parts, size", [(1, 4, 128), (16, 8, 128), (100, 3, 64), (4, 4, 256)])
def test_few_queries(queries, parts, size):
    text = kernel_of(F.scaled_dot_product_attention, heads(queries, 4096, size))
    assert chosen(text).shares > 1
    built = build(text, "attention", Attention(1, 64, 2, turns=False, apart=size < 256, parts=parts))
    blocks = 8 * -(-queries // 64) * parts
    assert f"grid = [{blocks}, 1, 1]" in built.gpu and f"cluster = [{parts}, 1, 1]" in built.gpu
    assert built.count(r"barrier\.cluster\.arrive") == 3 and built.count(r"ld\.shared::cluster") > 0
    assembled(built)


def rows_innermost(q, k, v):
    """As images have them: queries, keys and results innermost in memory."""
    return F.scaled_dot_product_attention(*(x.transpose(-1, -2) for x in (q, k, v))).transpose(-1, -2).contiguous()


@pytest.mark.thorough
def test_rows_innermost():
    torch.manual_seed(0)
    args = tuple(torch.randn(2, size, 88).bfloat16() for size in (40, 40, 24))
    assert_close_to_float64(simulate(rows_innermost, args, Attention(1, 64, turns=False)), rows_innermost, args)
    large = tuple(empty(2, 128, 4096) for _ in range(3))
    assert chosen(kernel_of(rows_innermost, large)) is not None
    built = build(kernel_of(rows_innermost, large), "attention", Attention())
    assembled(built)


def shifted_windows(x, mask):
    """Swin's: of one tensor queries, keys and values, and a mask for each window of an image."""
    q, k, v = x.unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
    scores = (q / 4) @ k.transpose(-1, -2)
    scores = (scores.unflatten(0, (-1, mask.shape[0])) + mask[:, None]).flatten(0, 1)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)


def windows_inside(x):
    """Hiera's: of each image the first pixels of all windows, then the second ones."""
    q, k, v = x.unflatten(-1, (3, 2, 16)).permute(3, 0, 4, 2, 1, 5)
    return F.scaled_dot_product_attention(q, k, v).permute(0, 3, 2, 1, 4).flatten(3)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("function, shapes, grid, keys, begin", [
    (shifted_windows, ((6, 9, 96), (3, 9, 9)), [2, 3, 2], [16, 9, 6, 2, 2], 32),  # images and windows are one axis, the last one is where keys begin
    (windows_inside, ((2, 9, 3, 96),), [2, 3, 2], [16, 9, 2, 3, 4], 0),  # keys are the third and fourth head
])
def test_tensor_maps_of_five_axes(function, shapes, grid, keys, begin):
    torch.manual_seed(0)
    args = tuple(torch.randn(shape).bfloat16() for shape in shapes)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(kernel_of(function, args))
        a, tiling = read(kernels(module)[0], TARGET)
    assert [axis.size for axis in tiling.grid] == grid and [axis.size for axis in tiling.k.axes] == keys
    assert a.k.access.offset == 32 and (BEHIND in tiling.k.axes) == (begin > 0)
    assert_close_to_float64(simulate(function, args, Attention(1, 16, turns=False)), function, args)


def test_more_blocks_than_a_cluster_share_a_long_cache():
    def grouped(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    text = kernel_of(grouped, (empty(1, 32, 1, 128), empty(1, 4, 32768, 128), empty(1, 4, 32768, 128)))
    schedule = chosen(text)
    assert schedule.splits > 1 and not schedule.staged and 120 <= 4 * schedule.shares <= 132
    built = build(text, "attention", schedule)
    assert schedule.parts == 2 and f"<{4 * schedule.parts}xi64>" in built.gpu  # a counter for each block that adds up
    assert f"grid = [{4 * schedule.shares}, 1, 1]" in built.gpu and built.gpu.count('"inferno.launch"') == 1
    assert built.count(r"atom\.relaxed\.gpu\.global\.add") == built.count(r"atom\.relaxed\.gpu\.global\.cas") == 1
    assembled(built)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("schedule, early", [
    (Attention(2, 64, order="dynamic"), False), (Attention(1, 48, turns=False, parts=2), True), (Attention(2, 48, apart=False), True),
    (Attention(1, 32, turns=False, splits=5), False), (Attention(1, 16, turns=False, parts=2, splits=2, staged=False), True),
])
def test_by_the_simulator(schedule, early):
    """Copies as late as they may be, and as early."""
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 2, 40 if schedule.shares > 1 else 150, 40), torch.randn(1, 1, 150, 40), torch.randn(1, 1, 150, 40)
    args = tuple(x.bfloat16() for x in (q, k, v))

    def grouped(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=schedule.shares == 1, enable_gqa=True)

    assert_close_to_float64(simulate(grouped, args, schedule, early), grouped, args)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("queries, keys, schedule", [
    (300, 90, Attention(1, 16, turns=False, order="even")), (600, 100, Attention(2, 32, order="even")), (200, 20, Attention(1, 32, turns=False, order="even")),
])
def test_equal_shares(queries, keys, schedule, monkeypatch):
    """Five tiles of two blocks of threads, of which one is in both; four of one block of keys."""
    share_two_multiprocessors(monkeypatch)
    args = tuple(torch.randn(1, 1, n, 24).bfloat16() for n in (queries, keys, keys))
    assert_close_to_float64(simulate(F.scaled_dot_product_attention, args, schedule), F.scaled_dot_product_attention, args)


def test_who_has_equal_shares():
    built = build(kernel_of(F.scaled_dot_product_attention, heads(4096, 4096, 64, of=11, shared=11)), "attention", Attention(3, 128, order="even"))
    assert "grid = [132, 1, 1]" in built.gpu and built.gpu.count('"inferno.launch"') == 1
    assert "<399xi64>" in built.gpu and f"<{399 * 2 * 128 * 36}xf32>" in built.gpu  # for each two neighbours, and three consumers
    assert built.count(r"atom\.relaxed\.gpu\.global\.add") == 1 and built.count(r"atom\.relaxed\.gpu\.global\.cas") == 2
    assembled(built)
    text = kernel_of(causal, heads(4096, 4096, 64))
    with pytest.raises(CompileError):
        build(text, "attention", Attention(3, 128, order="even"))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("size, dtype, schedule", [
    (1e3, torch.bfloat16, Attention(1, 16, turns=False, parts=2)),
    *((size, torch.float32, Attention(1, 16, 1, turns=False, overlap=False, pieces=3)) for size in (1e3, 1e5, 1e12)),
])
def test_large_scores(size, dtype, schedule):
    """Each query sees the two keys, of different blocks, whose scores are as large, although products with a scale are rounded by more than 1."""
    torch.manual_seed(0)
    q, k, v = size * torch.randn(1, 2, 20, 16), size * torch.randn(1, 2, 24, 16), torch.randn(1, 2, 48, 16)
    args = tuple(x.to(dtype) for x in (q, torch.cat((k, k), 2), v))
    assert_close_to_float64(simulate(F.scaled_dot_product_attention, args, schedule), F.scaled_dot_product_attention, args)


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("parts, scale", [(1, 1), (2, 30)])
def test_sinks(parts, scale):
    torch.manual_seed(0)
    args = (*(torch.randn(1, 2, 40, 16).bfloat16() for _ in range(3)), scale * torch.randn(2).bfloat16())
    assert_close_to_float64(simulate(with_sinks, args, Attention(1, 16, turns=False, parts=parts)), with_sinks, args)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("parts, splits, position", [(1, 1, 37), (3, 1, 0), (2, 2, 60), (1, 3, 70)])
def test_a_cache_is_read_up_to_its_position(parts, splits, position):
    """Two tokens at a position of a cache, whose values after what a block has with them are NaN."""
    def cached(q, k, v, position):
        mask = torch.arange(k.shape[2]) <= torch.arange(q.shape[2])[:, None] + position
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, of, rows, 16).bfloat16() for of, rows in ((4, 2), (2, 128), (2, 128)))
    args = q, k, v, torch.tensor(position)
    wanted = cached(*args)
    v[:, :, (position + 1) // 16 * 16 + 16 * parts * splits:] = torch.nan
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(kernel_of(cached, args))
        a = parse_attention(kernels(module)[0])
        assert a.reach is not None and not a.reach[0].shape and choose(kernels(module)[0], TARGET).bounded
    found = simulate(cached, args, Attention(1, 16, turns=False, parts=parts, splits=splits, bounded=True, staged=splits == 1))
    assert (found.double() - wanted.double()).norm() <= 4e-3 * wanted.double().norm()


def test_the_space():
    text = kernel_of(causal, heads(2048, 2048, of=16, shared=16))
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        kernel = kernels(module)[0]
        found = list(spaces.space(kernel, TARGET))
        a, _ = read(kernel, TARGET)
        assert len(found) > 100 and choose(kernel, TARGET) in [s for _, s in found]
        assert all(spaces.valid(kernel, s, TARGET) for _, s in found[::50])
        assert not fits(Attention(keys=256), a, TARGET) and not fits(Attention(stages=3), a, TARGET)
    with pytest.raises(CompileError, match="needs more shared memory or registers"):
        build(text, "attention", Attention(stages=3))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("args", [heads(size=200, dtype=torch.float32), heads(size=100), heads(size=264)], ids=["float32", "strides", "wide"])
def test_left_alone(args):
    assert chosen(kernel_of(F.scaled_dot_product_attention, args)) is None



def capped(q, k, v, mask=None):
    scores = 4 * torch.tanh(q @ k.mT / 16)
    return torch.softmax(scores if mask is None else scores + mask, -1) @ v


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("order", ["single", "static", "even"])
@pytest.mark.parametrize("function, masked", [(capped, False), (capped, True), (F.scaled_dot_product_attention, False)])
def test_of_up_to_eight_queries_every_other_row_is_none(monkeypatch, order, function, masked):
    """A thread has those of two rows: scores and exponentials are computed of one alone."""
    text = kernel_of(function, heads(4, 512, 64) + ((empty(4, 512),) if masked else ()))
    few = build(text, "attention", Attention(1, 64, 3, order, False))
    more = build(kernel_of(function, heads(9, 512, 64) + ((empty(9, 512),) if masked else ())), "attention", Attention(1, 64, 3, order, False))
    instructions = r"ex2\.approx\.ftz\.f32|tanh"
    assert 0.4 < few.count(instructions) / more.count(instructions) < 0.6
    torch.manual_seed(0)
    args = [torch.randn(3, 2, n, 16).bfloat16() for n in (4, 40, 40)] + ([torch.randn(4, 40).bfloat16()] if masked else [])
    if order != "single":
        share_two_multiprocessors(monkeypatch)
    assert_close_to_float64(simulate(function, tuple(args), Attention(1, 16, 3, order, False)), function, args)
