"""Contractions of few rows against float64, with every schedule that is made for them."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from checks import check, poison_memory
from on_gpu import on_hopper

from inferno.schedule.maps import elementwise
from inferno.schedule.matmul import bf16x6, vectors, wgmma
from inferno.schedule.matmul.parser import parse_contraction
from inferno.target import find_target

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from universal_program import compile_universal

F = torch.nn.functional
TARGET = find_target("sm_90a")

pytestmark = on_hopper


def on_tensor_cores(kernel) -> list:
    """The best thin schedule for each number of blocks that share a tile, and each depth of the slots."""
    c, found = parse_contraction(kernel), {}
    if c is None:
        return []
    for _, s in sorted(wgmma.candidates(kernel, c, TARGET), key=lambda x: x[0]):
        if s.tile_m == 64 and (s.stages > 12 or s.lhs_rows or s.chunks > 1 or s.tile_n not in (32, 64, 128)):
            found.setdefault((s.split, s.chunks, s.rewrite), s)
    return list(found.values())


def rewriting(kernel) -> list:
    """Those that apply prologues on the way to the tensor core."""
    return [s for s in on_tensor_cores(kernel) if s.rewrite]


def on_cuda_cores(kernel) -> list:
    c = parse_contraction(kernel)
    return [] if c is None else [s for _, s in sorted(vectors.candidates(c, TARGET), key=lambda x: x[0])][::3]


def in_parts(kernel) -> list:
    """Float32 by products of bf16, the sides exchanged; with compensated sums, too."""
    c = parse_contraction(kernel)
    found = [] if c is None else [s for _, s in bf16x6.candidates(kernel, c, TARGET) if s.swapped]
    return list(dict.fromkeys([*found, *(replace(s, compensated=True) for s in found)]))


def right(schedules, function, *args, dtype=torch.bfloat16):
    """``args`` are tensors or shapes of normal ones; every schedule is right, and there are some."""
    torch.manual_seed(0)
    args = tuple(a if isinstance(a, torch.Tensor) else torch.randn(a, device="cuda").to(dtype) for a in args)
    number, count = 0, 1
    while number < count:
        count = one_right(schedules, number, function, args)
        assert count
        number += 1


def one_right(schedules, number: int, function, args: tuple) -> int:
    """The result with the ``number``-th schedule is right; returns how many there are."""
    counts = []

    def choose(kernel):
        found = schedules(kernel)
        counts.append(len(found))
        return found[min(number, len(found) - 1)] if found else elementwise.choose(kernel, TARGET)

    compiled = compile_universal(function, args, torch.device("cuda"), TARGET.name, choose)
    poison_memory()
    verdict = check(compiled, function, args)
    assert verdict.right, f"{compiled.ir('scheduled')[:2000]}\n{verdict}"
    return max(counts)


SIZES = [(1, 4096, 512), (3, 72, 200), (8, 1024, 1032), (16, 200, 4096), (33, 776, 520), (64, 512, 3584), (57, 64, 8)]


@pytest.mark.parametrize("m, k, n", SIZES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layouts(m, k, n, dtype):
    right(on_tensor_cores, lambda x, w: torch.relu(x @ w), (m, k), (k, n), dtype=dtype)
    right(on_tensor_cores, lambda x, w, b: F.gelu(F.linear(x, w, b)), (m, k), (n, k), (n,), dtype=dtype)


def test_rows_of_the_lhs_lie_apart():
    right(on_tensor_cores, lambda x, w: x.t() @ w, (512, 24), (512, 1024))
    right(on_tensor_cores, lambda x, w: x.t() @ w.t(), (512, 24), (1024, 512))


def test_residual_and_two_results():
    def both(x, w, r):
        y = F.linear(x, w)
        return y + r, torch.sigmoid(y)

    right(on_tensor_cores, both, (5, 1024), (2056, 1024), (5, 2056))


def test_unaligned():
    right(on_tensor_cores, lambda x, w: x @ w, (7, 515), (515, 1001))


def test_batches():
    right(on_tensor_cores, torch.matmul, (12, 16, 128), (12, 128, 512))
    right(on_tensor_cores, lambda x, y: x @ y.mT, (8, 1, 128), (8, 700, 128))


def test_prologues():
    right(on_tensor_cores, lambda x, w, s: (x * s) @ w, (9, 512), (512, 1024), (9, 1))
    weights = torch.randint(-127, 128, (1024, 512), dtype=torch.int8, device="cuda")
    right(on_tensor_cores, lambda x, s, w: F.linear(x, w.to(torch.bfloat16) * s), (9, 512), (1024, 1), weights)


WEIGHTS = {
    "scaled": (lambda x, w, s: F.linear(x, w.to(x.dtype) * s), lambda n, k: (n, 1), False),
    "scaled along the terms": (lambda x, w, s: F.linear(x, w.to(x.dtype) * s), lambda n, k: (k,), False),
    "scaled, across": (lambda x, w, s: x @ (w.to(x.dtype) * s), lambda n, k: (1, n), True),
    "from a zero": (lambda x, w, s: F.linear(x, (w.to(x.dtype) - s) * s), lambda n, k: (n, 1), False),
    "in float32": (lambda x, w, s: F.linear(x, (w.float() * s.float()).to(x.dtype)), lambda n, k: (n, 1), False),
}


@pytest.mark.parametrize("m, k, n", [(16, 4096, 1056), (57, 336, 528)])
@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("dtype, kind", [(torch.bfloat16, torch.int8), (torch.float16, torch.uint8)], ids=["int8", "uint8"])
def test_weights_of_bytes(name, m, k, n, dtype, kind):
    function, scale, across = WEIGHTS[name]
    w = torch.randint(torch.iinfo(kind).min, torch.iinfo(kind).max + 1, (k, n) if across else (n, k), dtype=kind, device="cuda")
    right(rewriting, function, (m, k), w, torch.rand(scale(n, k), device="cuda").to(dtype) / 16 + 1 / 32, dtype=dtype)


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8])
@pytest.mark.parametrize("across", [False, True])
def test_every_byte_is_converted(kind, across):
    """Products with ones and zeros give the weights themselves."""
    numbers = torch.arange(256, device="cuda").to(torch.uint8).view(kind)
    w = torch.stack([numbers.roll(i) for i in range(512)])[:, :64].contiguous()
    x, w = torch.eye(64, device="cuda", dtype=torch.bfloat16), w.t().contiguous() if across else w

    def choose(kernel):
        found = on_tensor_cores(kernel)
        return found[0] if found else elementwise.choose(kernel, TARGET)

    function = (lambda x, w: x @ w.to(x.dtype)) if across else (lambda x, w: F.linear(x, w.to(x.dtype)))
    compiled = compile_universal(function, (x, w), torch.device("cuda"), TARGET.name, choose)
    assert 'generator = "wgmma"' in compiled.ir("scheduled")
    assert torch.equal(compiled(x, w), (w if across else w.t()).bfloat16())


def test_infinity_stays_in_its_row():
    x, w = torch.randn(5, 256, device="cuda").bfloat16(), torch.randn(512, 256, device="cuda").bfloat16()
    x[2, 7] = float("inf")
    right(on_tensor_cores, F.linear, x, w)


@pytest.mark.parametrize("m, k, n", [(9, 1024, 1032), (16, 260, 4100), (25, 4096, 520), (32, 512, 3584), (9, 4096, 11008)])
def test_float32(m, k, n):
    right(in_parts, lambda x, w: torch.relu(x @ w), (m, k), (k, n), dtype=torch.float32)
    right(in_parts, lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r, (m, k), (n, k), (n,), (m, n), dtype=torch.float32)


@pytest.mark.parametrize("m, k, n", [(1, 4096, 4096), (1, 16384, 64), (2, 260, 500), (4, 1024, 11008), (8, 768, 3072)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_vectors(m, k, n, dtype):
    right(on_cuda_cores, lambda x, w: torch.relu(x @ w), (m, k), (k, n), dtype=dtype)
    right(on_cuda_cores, lambda x, w, b: F.gelu(F.linear(x, w, b)), (m, k), (n, k), (n,), dtype=dtype)
    right(on_cuda_cores, lambda x, w: w @ x, (k, m), (n, k), dtype=dtype)


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8])
@pytest.mark.parametrize("m", [1, 5])
def test_vectors_and_weights_of_bytes(m, kind):
    w = torch.arange(520 * 1024, device="cuda").to(torch.uint8).view(kind).reshape(520, 1024)
    scale = torch.rand(520, 1, device="cuda").bfloat16()
    right(on_cuda_cores, lambda x, w, s: F.linear(x, w.to(x.dtype) * s), (m, 1024), w, scale)
    right(on_cuda_cores, lambda x, w, s: x @ (w.to(x.dtype) * s).t(), torch.eye(1024, device="cuda").bfloat16()[:m], w, scale)


def test_vectors_of_integers():
    x, w = (torch.randint(-9, 9, s, dtype=torch.int32) for s in ((2, 512), (512, 64)))
    assert torch.equal(compile_universal(torch.matmul, (x.cuda(), w.cuda()), torch.device("cuda"), TARGET.name, lambda k: (
        vectors.choose(k, TARGET)))(x.cuda(), w.cuda()).cpu(), x @ w)
