"""Concatenations and parts of tensors on a GPU, at sizes that have vectors and at others."""

import pytest
import torch
from checks import assert_right, check, poison_memory
from computed_piece_cases import PROGRAMS, SHAPES
from piece_cases import CASES as SMALL
from piece_cases import neighbours, rope, rotated_pairs

import inferno

F = torch.nn.functional


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


CASES = {
    "rope": (rope, ((4, 8, 512, 64), (512, 64), (512, 64))), "halves": (swiglu, ((3000, 1024),)), "halves of an odd length": (swiglu, ((3001, 50),)),
    "last": (lambda x, y: torch.cat((x, y), -1), ((3000, 512), (3000, 256))), "odd": (lambda x, y: torch.cat((x, y), -1), ((3001, 513), (3001, 255))),
    "rotated pairs": (rotated_pairs, ((4, 8, 512, 64), (512, 32, 2, 2))),
    "first": (lambda x, y: torch.cat((x, y)), ((300, 512), (1000, 512))), "stack": (lambda x, y: torch.stack((x, y), -1), ((3000, 100), (3000, 100))),
    "parts": (lambda x: torch.cat((x[:, 8:], x[:, :8], x[:, ::2]), -1), ((3000, 256),)),
    "rows of a part": (lambda x: torch.softmax(x[:, 1::2, 3:], -1), ((64, 100, 515),)), "inside": (lambda x: x[2:, 1:, 3:-1:2].exp(), ((60, 40, 120),)),
}


LARGE = {
    "rope": (rope, ((4, 32, 1024, 128), (1024, 128), (1024, 128))), "bias": (lambda x, b: F.gelu(x + b), ((4096, 4096), (4096,))),
    "neighbours": (neighbours, ((4, 32, 1024, 64), (1024, 32), (1024, 32))),
    "rotated pairs": (rotated_pairs, ((4, 32, 1024, 64), (1024, 32, 2, 2))),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), ((16, 64, 56, 56),)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_right(name, dtype):
    function, shapes = CASES[name]
    args = tuple(torch.randn(s, device="cuda").to(dtype) for s in shapes)
    compiled = inferno.compile(function, args, fallback=False)
    poison_memory()
    found = check(compiled, function, args)
    assert found.right, str(found)


@pytest.mark.parametrize("name", SMALL)
def test_small(name):
    function, args = SMALL[name]
    args = tuple(a.cuda() for a in args)
    if name == "max_pool of integers":  # which torch has on the CPU alone
        assert torch.equal(inferno.compile(function, args, fallback=False)(*args).cpu(), function(*(a.cpu() for a in args)))
        return
    found = check(inferno.compile(function, args, fallback=False), function, args)
    assert found.right, str(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["rope", "neighbours", "bilinear", "bias", "rotated pairs"])
def test_reads_what_is_broadcast_once(name, dtype):
    """Large enough for threads that do several iterations."""
    function, shapes = LARGE[name]
    args = tuple(torch.randn(s, device="cuda").to(dtype) for s in shapes)
    found = check(inferno.compile(function, args, fallback=False), function, args)
    assert found.right, str(found)


@pytest.mark.parametrize("name", ["cross_entropy", "argmax bf16", "softmax", "layer_norm"])
def test_what_is_compiled_by_default(name):
    x, i = torch.randn(500, 3000, device="cuda"), torch.randint(3000, (500,), device="cuda")
    x[torch.arange(500), i] = 9  # the largest of its row
    function, args, launches = {
        "cross_entropy": (F.cross_entropy, (x, i), 4), "argmax bf16": (lambda x: x.argmax(-1), (x.bfloat16(),), 1),
        "softmax": (lambda x: torch.softmax(x, -1), (x.bfloat16(),), 1), "layer_norm": (lambda x: F.layer_norm(x, (3000,)), (x,), 1),
    }[name]
    compiled = inferno.compile(function, args, fallback=False)
    assert compiled.explain().launches <= launches
    found = check(compiled, function, args)
    assert found.right, str(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shapes", [*SHAPES, ((3000, 39), (3000, 78))], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_of_computed_pieces(name, shapes, dtype):
    program, most = PROGRAMS[name]
    poison_memory()
    compiled = assert_right(program, tuple(torch.randn(s, device="cuda").to(dtype) for s in shapes))
    assert shapes not in SHAPES or compiled.explain().launches <= most
