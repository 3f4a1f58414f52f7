"""One call of every generator's kernels, small enough for compute-sanitizer:

    compute-sanitizer --target-processes application-only --tool memcheck python -m benchmarks.sanitize
    compute-sanitizer --target-processes application-only --tool racecheck python -m benchmarks.sanitize

With names of generators behind it, only theirs; with ``sized``, only those whose sizes vary.  Exits with 1 if a case is wrong or was made
by another generator than the one named.

racecheck does not see what barriers that count bytes (mbarrier) order: of kernels whose tiles are given out by a counter it reports the numbers of
tiles in shared memory, as it reports cuDNN's attention.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.export import Dim

import inferno
from benchmarks import require_gpu
from inferno.mlir import ir, new_context
from inferno.passes.manager import run_pipeline
from inferno.runtime.build import build_from
from inferno.runtime.check.comparison import compare
from inferno.runtime.module import CompiledModule
from inferno.schedule.assign import kernels
from inferno.schedule.attributes import ATTRIBUTE
from inferno.tools.check import reference

F = torch.nn.functional


@dataclass(frozen=True)
class Case:
    """``shapes`` of the inputs; a size that is a letter varies, and the case is compiled once, for ``sizes[0]``, and called for each.
    ``passes`` are run on its ``fused`` stage.  ``knobs``: of the generator's schedule, as the IR writes them, in the place of what the
    model picks."""

    generator: str
    name: str
    function: Callable
    shapes: tuple[tuple[int | str, ...], ...]
    dtype: torch.dtype = torch.float32
    sizes: tuple[dict[str, int], ...] = ()
    passes: str = ""
    knobs: str = ""

    def at(self, sizes: dict[str, int]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(sizes.get(s, s) for s in shape) for shape in self.shapes)

    @property
    def dynamic_shapes(self) -> tuple[dict[int, Dim], ...] | None:
        dims = {name: Dim(name, min=1, max=8192) for name in (self.sizes[0] if self.sizes else ())}
        return tuple({i: dims[s] for i, s in enumerate(shape) if s in dims} for shape in self.shapes) if dims else None


def _n(*values: int) -> tuple[dict[str, int], ...]:
    return tuple({"n": v} for v in values)


_DUALS = "fuse-duals{target=sm_90a always=1}"
_STAGES = "threads = 128, lanes = 8, vector = 2, items = 4, stages = 2"
_ROWS = "fuse-row-epilogues{target=sm_90a always=1}"
_ATTENTION = "fuse-attention{target=sm_90a always=1}"
_SIZES = ({"b": 2, "n": 130}, {"b": 1, "n": 1}, {"b": 3, "n": 64}, {"b": 1, "n": 300})

def _projections(x, w, v, u, b, r):
    return F.linear(x, w, b), F.linear(x, v), F.gelu(F.linear(x, u)) + r


def _weight_gradient(g, x, w):
    """Of a depthwise convolution that leaves the size."""
    options = [1, 1], [k // 2 for k in w.shape[2:]], [1, 1], False, [0, 0], x.shape[1], [False, True, False]
    return torch.ops.aten.convolution_backward(g, x, w, None, *options)[1]


def _of_channels(x):
    return x.permute(0, 3, 1, 2)


def _of_pixels(y):
    return tuple(r.permute(0, 2, 3, 1) for r in (y.relu(), y, y > 0))


CASES = (
    Case("wgmma", "relu(x @ w)", lambda x, w: torch.relu(x @ w), ((256, 192), (192, 320)), torch.bfloat16),
    Case("wgmma", "gelu(linear) + residual", lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r, ((200, 136), (264, 136), (264,), (200, 264)), torch.bfloat16),
    Case("wgmma", "three results", lambda x, w, b: ((y := torch.addmm(b, x, w.t())), y.relu(), y > 0), ((200, 136), (264, 136), (264,)), torch.bfloat16),
    Case("wgmma", "two results, ragged", lambda x, w: ((y := x @ w).relu(), y.tanh()), ((77, 51), (51, 33)), torch.float16),
    Case("bf16x6", "two results", lambda x, w: ((y := x @ w).relu(), y.tanh()), ((520, 300), (300, 392))),
    Case("wgmma", "ragged", lambda x, w: x @ w, ((77, 51), (51, 33)), torch.float16),
    Case("wgmma", "batched", torch.matmul, ((3, 70, 64), (3, 64, 80)), torch.bfloat16),
    Case("wgmma", "several tiles a block", lambda x, w: x @ w, ((2048, 64), (64, 2048)), torch.bfloat16),
    Case("wgmma", "few rows", lambda x, w, b: F.gelu(F.linear(x, w, b)), ((12, 520), (1032, 520), (1032,)), torch.bfloat16),
    Case("wgmma", "few rows, columns together, in parts", lambda x, w: x @ w, ((9, 2048), (2048, 520)), torch.bfloat16),
    Case("wgmma_rows", "softmax", lambda x, w: torch.softmax(x @ w, -1), ((200, 136), (136, 72)), torch.bfloat16, passes=_ROWS),
    Case(
        "wgmma_rows", "layer norm, several tiles a block, columns outside", lambda x, w, b: F.layer_norm(F.linear(x, w, b), (100,)),
        ((20000, 64), (100, 64), (100,)), torch.bfloat16, passes=_ROWS,
    ),
    Case(
        "wgmma_rows", "a cluster, results by row", lambda x, w: ((y := F.linear(x, w)).amax(-1), torch.exp(y.float()).sum(-1)),
        ((64, 8192), (64, 8192)), torch.float16, passes=_ROWS,
    ),
    Case("dual", "SwiGLU", lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u), ((200, 136), (264, 136), (264, 136)), torch.bfloat16, passes=_DUALS),
    Case(
        "dual", "columns together, three results", lambda x, g, u: ((y := x @ g), (z := x @ u), F.gelu(y) * z), ((200, 136), (136, 264), (136, 264)),
        torch.float16, passes=_DUALS,
    ),
    Case("dual", "several tiles a block", lambda x, g, u: F.silu(x @ g) * (x @ u), ((2048, 64), (64, 2048), (64, 2048)), torch.bfloat16, passes=_DUALS),
    Case("dual", "few rows", lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u), ((7, 520), (1032, 520), (1032, 520)), torch.bfloat16, passes=_DUALS),
    Case(
        "dual", "few rows, columns together, in parts", lambda x, g, u: F.silu(x @ g) * (x @ u), ((9, 2048), (2048, 520), (2048, 520)), torch.bfloat16,
        passes=_DUALS,
    ),
    Case(
        "attention", "causal, heads share keys, tiles by a counter",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), ((3, 48, 130, 64), (3, 24, 140, 64), (3, 24, 140, 64)),
        torch.bfloat16, passes=_ATTENTION, knobs='keys = 64, order = "dynamic"',
    ),
    Case(
        "attention", "a mask, results in the place of queries", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        ((1, 2, 200, 80), (1, 2, 300, 80), (1, 2, 300, 80), (200, 300)), torch.float16, passes=_ATTENTION, knobs="keys = 64, apart = false",
    ),
    Case("attention", "few queries, keys in parts", F.scaled_dot_product_attention, ((2, 4, 5, 128), (2, 4, 1000, 128), (2, 4, 1000, 128)), torch.bfloat16,
         passes=_ATTENTION, knobs="consumers = 1, turns = false, parts = 3"),
    Case("attention", "few queries, keys in parts and splits", F.scaled_dot_product_attention, ((2, 4, 5, 128), (2, 4, 1000, 128), (2, 4, 1000, 128)),
         torch.bfloat16, passes=_ATTENTION, knobs="consumers = 1, keys = 64, turns = false, parts = 2, splits = 3, staged = false"),
    Case(
        "attention", "one query, each block of a cluster adds up a part", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        ((2, 8, 1, 128), (2, 2, 1000, 128), (2, 2, 1000, 128)), torch.bfloat16, passes=_ATTENTION,
        knobs="consumers = 1, keys = 64, turns = false, parts = 2, splits = 3, staged = false",
    ),
    Case(
        "attention", "causal, heads share keys, any sizes", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        (("b", 4, "n", 64), ("b", 2, "n", 64), ("b", 2, "n", 64)), torch.bfloat16, sizes=_SIZES, passes=_ATTENTION, knobs='keys = 64, order = "dynamic"',
    ),
    Case(
        "attention", "a mask, any sizes", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        (("b", 2, "n", 80), ("b", 2, "n", 80), ("b", 2, "n", 80), ("b", 1, "n", "n")), torch.float16, sizes=_SIZES, passes=_ATTENTION, knobs="keys = 64",
    ),
    Case(
        "attention", "one query, any number of keys", F.scaled_dot_product_attention, (("b", 4, 1, 128), ("b", 4, "n", 128), ("b", 4, "n", 128)),
        torch.bfloat16, sizes=_SIZES, passes=_ATTENTION, knobs="consumers = 1, keys = 64, turns = false, parts = 2, splits = 2",
    ),
    Case(
        "attention", "float32, any sizes", F.scaled_dot_product_attention, ((2, 4, "n", 64), (2, 4, "n", 64), (2, 4, "n", 64)), torch.float32,
        sizes=_n(130, 1, 64, 300), passes=_ATTENTION, knobs="keys = 64, stages = 1, turns = false, overlap = false, pieces = 3",
    ),
    Case("siblings", "queries, keys and values", _projections, ((200, 136), (264, 136), (72, 136), (72, 136), (264,), (200, 72)), torch.bfloat16),
    Case("siblings", "few rows, sums in parts", _projections, ((9, 8192), (136, 8192), (72, 8192), (72, 8192), (136,), (9, 72)), torch.float16),
    Case("siblings", "vectors", _projections, ((2, 1032), (264, 1032), (72, 1032), (72, 1032), (264,), (2, 72))),
    Case("wgmma", "shared columns", lambda x, w, r: F.gelu(F.linear(x, w)) + r, ((200, 1000), (520, 1000), (200, 520)), torch.bfloat16,
         knobs="tile_m = 128, tile_n = 96, stages = 4, persistent = false, split = 3, spread = true"),
    Case("wgmma", "runs of steps", lambda x, w, r: F.gelu(F.linear(x, w)) + r, ((800, 136), (776, 136), (800, 776)), torch.bfloat16,
         knobs="tile_m = 64, tile_n = 64, stages = 4, consumers = 1, stream = true"),
    Case("wgmma", "tiles of the lhs for two", lambda x, w: torch.relu(x @ w), ((200, 520), (520, 256)), torch.bfloat16,
         knobs="tile_m = 128, tile_n = 64, stages = 4, cluster = 2, across = true"),
    Case("wgmma", "few rows, bytes", lambda x, w, s: F.linear(x.half(), w.half() * s.half()), ((12, 1040), (1032, 1040), (1032, 1)), torch.int8,
         knobs="tile_m = 64, tile_n = 40, stages = 12, consumers = 1, lhs_rows = 16, raw = 12, helpers = 2"),
    Case("bf16x6", "few rows, compensated sums", lambda x, w: torch.relu(F.linear(x, w)), ((16, 1024), (1032, 1024)),
         knobs="tile_m = 64, tile_n = 16, stages = 6, raw = 12, persistent = false, groups = 3, slices = 2, swapped = true, compensated = true"),
    Case("bf16x6", "few rows", lambda x, w: torch.relu(F.linear(x, w)), ((16, 1024), (1032, 1024))),
    Case("vectors", "along the terms", lambda x, w, b: F.gelu(F.linear(x, w, b)), ((3, 1032), (264, 1032), (264,))),
    Case("vectors", "columns together", lambda x, w: torch.relu(x @ w), ((1, 1032), (1032, 264))),
    Case("simt", "small", lambda x, w: torch.relu(x @ w), ((64, 128), (128, 256))),
    Case("mma", "double", lambda x, w: torch.relu(x @ w), ((260, 300), (300, 196)), torch.float64),
    Case("mma", "double, ragged, transposed operands", lambda x, w: x.t() @ w.t(), ((51, 77), (33, 51)), torch.float64),
    Case("mma", "double, a scaled operand, residual", lambda x, w, s, r: x @ (w * s) + r, ((64, 70), (70, 39), (70, 1), (64, 39)), torch.float64),
    Case("mma", "double, few long sums", lambda x, w, b: torch.relu(F.linear(x, w, b)), ((64, 20000), (40, 20000), (40,)), torch.float64),
    Case("bf16x6", "relu(x @ w)", lambda x, w: torch.relu(x @ w), ((520, 300), (300, 392))),
    Case("bf16x6", "a cluster, transposed operands", lambda x, w: torch.relu(x.t() @ w.t()), ((1024, 260), (256, 1024))),
    Case("bf16x6", "a scaled operand, residual", lambda x, w, s, r: x @ (w * s) + r, ((640, 260), (260, 392), (260, 1), (640, 392))),
    Case("bf16x6", "several tiles a block", lambda x, w: x @ w, ((2048, 128), (128, 2304))),
    Case("bf16x6", "several tiles a block, an odd number of steps", lambda x, w: x @ w, ((2048, 160), (160, 2304))),
    Case("bf16x6", "infinite sums", lambda x, w: torch.where(x > 3, torch.inf, x) @ w, ((520, 300), (300, 392))),
    Case("simt", "batched", torch.matmul, ((3, 33, 17), (3, 17, 35))),
    Case("elementwise", "multiply, add, sigmoid", lambda x, y, z: torch.sigmoid(x * y + z), ((333, 77), (333, 77), (77,))),
    Case("elementwise", "transpose", lambda x: x.t().contiguous() * 2, ((130, 70),)),
    Case("universal", "row sums", lambda x: x.sum(1), ((100, 3000),)),
    Case("universal", "sum of everything", lambda x: x.sum(), ((300, 1000),)),
    Case("reductions", "softmax along the first dimension", lambda x: x.softmax(0), ((11075, 64),), torch.float16),
    Case("reductions", "deviations along the first dimension", lambda x: x.std(0), ((4096, 512),)),
    Case("rows", "running sums between reductions", lambda x: (y := x.softmax(-1).cumsum(-1)) - y.amax(-1, keepdim=True), ((300, 1000),)),
    Case("rows", "running sums of rows that begin anywhere", lambda x: x.softmax(-1).cumsum(-1).cumsum(-1), ((300, 1001),), torch.bfloat16),
    Case("rows", "running sums of a cluster", lambda x: x.softmax(-1).cumsum(-1), ((5, 40000),)),
    Case("scans", "short rows", lambda x: x.cumsum(1), ((9, 300),)),
    Case("scans", "a look back along memory", lambda x: torch.relu(x).cumsum(1) + 1, ((3, 100000),)),
    Case("scans", "a look back across memory", lambda x: x.cumsum(0), ((5000, 72),)),
    Case("scans", "tiles that wait in shared memory", lambda x: x.cumsum(1), ((3, 5000, 64),), knobs=_STAGES),
    Case("scans", "maxima, and where they are", lambda x: x.cummax(1), ((5, 3000),)),
    Case("sorts", "sort", lambda x: torch.sort(x, 1).values, ((7, 90),)),
    Case("sorts", "tiles that are merged", lambda x: torch.sort(x, 1).values, ((2, 9000),)),
    Case("direct", "tall matrices", lambda x, y: x.t() @ y, ((20000, 16), (20000, 32)), torch.bfloat16),
    Case("direct", "odd tall matrices", lambda x, y: x.t() @ y, ((9001, 17), (9001, 33))),
    Case("direct", "small matrices", lambda x, y: torch.einsum("nik,njk->nij", x, y), ((4001, 8, 32), (4001, 8, 32)), torch.bfloat16),
    Case("direct", "a narrow layer", lambda x, w, b: torch.relu(F.linear(x, w, b)), ((5001, 64), (3, 64), (3,))),
    Case("tap_sums", "row-major", _weight_gradient, ((3, 24, 20, 21), (3, 24, 20, 21), (24, 1, 7, 7)), torch.bfloat16),
    Case("tap_sums", "row-major, float32", _weight_gradient, ((9, 8, 40, 33), (9, 8, 40, 33), (8, 1, 3, 3))),
    Case("tap_sums", "channels last", lambda g, x, w: _weight_gradient(_of_channels(g), _of_channels(x), w),
         ((3, 20, 21, 24), (3, 20, 21, 24), (24, 1, 5, 5)), torch.bfloat16),
    Case("short_sorts", "rows of 3", lambda x: torch.sort(x, 1).values, ((301, 3),)),
    Case("short_sorts", "rows of 8 with their places", lambda x: torch.sort(x, dim=1, stable=True), ((5001, 8),), torch.bfloat16),
    Case("short_sorts", "rows beside each other", lambda x: torch.sort(x, 1), ((3, 4, 333),)),
    Case("select", "by warps", lambda x: x.topk(7, 1).values, ((33, 300),)),
    Case("select", "by blocks, and sorted", lambda x: x.topk(200, 1).values, ((3, 3000),)),
    Case("select", "of parts", lambda x: x.topk(9, 1).values, ((2, 40000),)),
    Case("universal", "sums that meet in memory", lambda x: x[:9].index_add(0, torch.arange(300, device=x.device) % 9, x), ((300, 40),)),
    Case("simt", "convolution", lambda x, w: F.conv2d(x, w, padding=1), ((2, 3, 17, 17), (4, 3, 3, 3)), torch.float64),
    Case("im2col", "3x3", lambda x, w, b: torch.relu(F.conv2d(x, w, b, padding=1)), ((3, 64, 17, 19), (72, 64, 3, 3), (72,)), torch.bfloat16),
    Case("im2col", "steps, dilation, a residual", lambda x, w, r: F.conv2d(x, w, None, 2, (3, 2), 2) + r, ((2, 40, 29, 29), (24, 40, 4, 3), (2, 24, 15, 15)),
         torch.float16),
    # Whole numbers: eager rounds a convolution before it adds the bias, and what is near 0 has another sign then.
    Case("im2col", "three results, of bytes too",
         lambda x, w, b: _of_pixels(F.conv2d(_of_channels(x.round()), _of_channels(w.round()), b.round(), padding=1)),
         ((3, 17, 19, 64), (80, 3, 3, 64), (80,)), torch.bfloat16),
    Case("im2col", "any number of images", lambda x, w: F.conv2d(x, w, padding=1), (("n", 64, 9, 9), (32, 64, 3, 3)), torch.bfloat16, _n(9, 1, 33)),
    Case("channel_sums", "batch norm behind it", lambda x, w, g, b: F.batch_norm(F.conv2d(_of_channels(x), _of_channels(w), padding=1), None, None, g, b, True),
         ((32, 56, 56, 64), (64, 3, 3, 64), (64,), (64,)), torch.bfloat16),
    Case("im2col", "windows that move by two, with a halo", lambda x, w: F.conv2d(_of_channels(x), _of_channels(w), None, 2, 1).permute(0, 2, 3, 1),
         ((32, 28, 28, 256), (256, 3, 3, 256)), torch.bfloat16),
    Case("windows", "depthwise", lambda x, w, b: F.silu(F.conv2d(x, w, b, 1, 1, 1, 24)), ((2, 24, 17, 19), (24, 1, 3, 3), (24,)), torch.bfloat16),
    Case("windows", "three channels", lambda x, w: F.conv2d(x, w, None, 2, 1), ((2, 3, 33, 31), (16, 3, 3, 3))),
    Case("band_windows", "depthwise", lambda x, w, b: F.conv2d(x, w, b, 1, 3, 1, 64) + 1, ((2, 64, 15, 17), (64, 1, 7, 7), (64,)), torch.bfloat16),
    Case("universal", "maximum pooling", lambda x: F.max_pool2d(x, 2), ((2, 3, 16, 16),)),
    # Whole numbers: what thousand others add at one place comes in any order.
    Case(
        "universal", "sums that meet in memory, one place for all",
        lambda x: x[0].round().index_add(0, torch.arange(3000, device=x.device) % 3, x[1].round()), ((2, 3000),),
    ),
    # Sizes that vary.
    Case("wgmma", "rows", lambda x, w, b: F.gelu(F.linear(x, w, b)), (("n", 136), (264, 136), (264,)), torch.bfloat16, _n(200, 1, 7, 64, 777)),
    Case("wgmma", "columns", lambda x, w: torch.relu(w @ x), ((136, "n"), (264, 136)), torch.bfloat16, _n(200, 1, 7, 64, 777)),
    Case("wgmma", "terms", lambda x, y: torch.relu(x.t() @ y) + 1, (("n", 136), ("n", 264)), torch.bfloat16, _n(200, 1, 7, 64, 777)),
    Case("wgmma", "terms, scaled and copied", lambda x, y, s: x @ (y * s), ((136, "n"), ("n", 264), ("n", 1)), torch.float16, _n(200, 1, 7, 64, 777)),
    Case("wgmma", "scores", lambda q, k: torch.softmax(q @ k.transpose(1, 2), -1) @ k, ((6, "n", 64), (6, "n", 64)), torch.bfloat16, _n(100, 1, 9, 130)),
    Case("bf16x6", "rows", lambda x, w, b: F.gelu(F.linear(x, w, b)), (("n", 520), (776, 520), (776,)), sizes=_n(700, 1, 9, 64, 130, 1500)),
    Case("bf16x6", "columns", lambda x, w: torch.relu(w @ x.t()), (("n", 520), (776, 520)), sizes=_n(700, 1, 9, 64, 130, 1500)),
    Case("bf16x6", "terms", lambda x, y: torch.relu(x.t() @ y) + 1, (("n", 520), ("n", 776)), sizes=_n(700, 1, 9, 64, 130)),
    Case("bf16x6", "terms, scaled and copied", lambda x, y, s: x @ (y * s), ((520, "n"), ("n", 776), ("n", 1)), sizes=_n(700, 1, 9, 64, 130)),
    Case("bf16x6", "scores", lambda q, k: torch.softmax(q @ k.transpose(1, 2), -1) @ k, ((24, "n", 64), (24, "n", 64)), sizes=_n(300, 1, 9, 130)),
    Case("bf16x6", "infinite sums", lambda x, y: torch.where(x > 3, torch.inf, x).t() @ y, (("n", 520), ("n", 776)), sizes=_n(700, 9, 130)),
    Case("simt", "rows and terms", lambda x, y: (torch.relu(x @ y), y.t() @ y), (("n", 60), (60, 36)), torch.float64, _n(50, 1, 7, 130)),
    Case("simt", "terms", lambda x, y: torch.relu(x.t() @ y), (("n", 60), ("n", 36)), torch.float64, _n(50, 1, 7, 130)),
    Case("elementwise", "rows", lambda x, y: torch.sigmoid(x * y), (("n", 77), (77,)), sizes=_n(30, 1, 333)),
    Case("elementwise", "transposed", lambda x: x.t().contiguous() * 2, (("n", 70),), sizes=_n(30, 1, 333)),
    Case("universal", "row sums, of any length", lambda x: (x.sum(1), x.sum(0)), (("n", "m"),),
         sizes=({"n": 30, "m": 500}, {"n": 1, "m": 1}, {"n": 9, "m": 3000})),
    Case("universal", "running sums", lambda x: x.cumsum(1), ((9, "n"),), sizes=_n(300, 1, 1025)),
    Case("universal", "sorted", lambda x: torch.sort(x, 1).values, ((7, "n"),), sizes=_n(90, 1, 257)),
    Case("universal", "sums that meet in memory, any number", lambda x: x[:1].expand(9, 40).index_add(0, torch.arange(x.shape[0], device=x.device) % 9, x),
         (("n", 40),), sizes=_n(300, 1, 1000)),
)


def _random(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Random normal numbers; whole ones in float64, whose sums are exact in the reference too, and small ones as bytes."""
    if dtype is torch.int8:
        return torch.randint(-9, 10, shape, device="cuda", dtype=dtype)
    values = torch.randn(shape, device="cuda", dtype=dtype)
    return (values * 8).round() if dtype is torch.float64 else values


def _compile(case: Case, inputs: tuple[torch.Tensor, ...]) -> inferno.CompiledModule:
    compiled = inferno.compile(case.function, inputs, dynamic_shapes=case.dynamic_shapes, matmul="generated")
    if not case.passes and not case.knobs:
        return compiled
    made = build_from("scheduled", _scheduled(case, compiled), compiled.program.target, signature=compiled.program.signature)
    assert not any(kernel.note for kernel in made.kernels.values()), made.kernels
    return CompiledModule(made, inputs[0].device, 0.0)


def _scheduled(case: Case, compiled: inferno.CompiledModule) -> str:
    """The program behind the case's passes, by its schedule."""
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(compiled.ir("fused" if case.passes else "scheduled"))
        if case.passes:
            run_pipeline(module, f"{case.passes},inferno-schedule{{target={compiled.program.target.name}}}")
        for kernel in kernels(module) if case.knobs else ():
            kernel.attributes[ATTRIBUTE] = ir.Attribute.parse(f'{{generator = "{case.generator}", {case.knobs}}}')
        return str(module)


def main(generators: list[str]) -> int:
    require_gpu()
    torch.manual_seed(0)
    failed = 0
    only = [g for g in generators if g != "sized"]
    for case in (c for c in CASES if (not only or c.generator in only) and (c.sizes or "sized" not in generators)):
        compiled = None
        for sizes in case.sizes or ({},):
            inputs = tuple(_random(s, case.dtype) for s in case.at(sizes))
            compiled = compiled or _compile(case, inputs)
            found = compare(compiled(*inputs), case.function(*inputs), reference(case.function, inputs))
            made_by = {name for row in compiled.explain().rows for name in row.generator.split(" or ")}
            failed += not found.right or case.generator not in made_by
            at = "".join(f", {name}={size}" for name, size in sizes.items())
            print(f"{case.generator}: {case.name}{at}: {found}; made by {', '.join(sorted(made_by))}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
