"""Roundings to 8 bits by the GPU's instruction, in pairs where a thread has neighbours: bit for bit torch's, on a simulated GPU."""

import pytest
import torch
from checks import check
from universal_program import Simulated, SimulatedModel, assert_assembles

import inferno
from inferno.capture import capture
from inferno.runtime.build import build_from
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.schedule.maps.elementwise import Elementwise
from inferno.target import find_target

TYPES = [torch.float8_e4m3fn, torch.float8_e5m2]


def numbers() -> torch.Tensor:
    """Every number of bf16, those half way between two of 8 bits, and their neighbours."""
    x = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()
    results = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(torch.float8_e4m3fn).float()
    results = results[torch.isfinite(results)].sort()[0]
    middles = (results[1:] + results[:-1]) / 2
    far = torch.full_like(middles, torch.inf)
    x = torch.cat((x, middles, middles.nextafter(far), middles.nextafter(-far)))
    return torch.cat((x, torch.zeros(-len(x) % 16)))


@pytest.mark.covering
@pytest.mark.parametrize("vector", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_elementwise(dtype, vector):
    """Numbers of every kind, infinities and what is no number with its sign."""
    def model(x):
        return (x * 1).to(dtype)

    x = numbers()
    made = SimulatedModel(model, (x,), choose=lambda kernel: Elementwise(128, vector, 1))
    assert torch.equal(made(x).view(torch.uint8), model(x).view(torch.uint8))
    gpu = made.program.gpu
    pairs = dtype == torch.float8_e4m3fn and vector % 4 == 0
    assert gpu.count("llvm.nvvm.ff.to") == (vector // 2 if pairs else vector)
    assert ("prmt.b32" in gpu) == pairs and "f8E" not in gpu and "arith.constant 126 : i32" not in gpu
    assert_assembles(gpu, find_target("sm_90a"))


def quantise(x):
    """In blocks, each with a factor, which is exact."""
    blocks = x.view(*x.shape[:-1], -1, 64)
    scale = blocks.abs().amax(-1).float().clamp(min=1e-4) / 448
    return (blocks / scale[..., None]).to(torch.float8_e4m3fn).view(x.shape), scale


MODELS = {
    "blocks": (quantise, (6, 256)), "norm": (lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:]).to(torch.float8_e4m3fn), (5, 96)),
    "columns": (lambda x: (x / x.abs().amax(0)).to(torch.float8_e4m3fn), (64, 40)),
    "a quotient": (lambda x: (x / (x * x + 1)).to(torch.float8_e4m3fn), (3, 64)),
}


class Scheduled:
    """A program as it is scheduled for a GPU, whose results are widened."""

    simulated = True

    def __init__(self, program, x):
        self.captured = capture(program, (x,))
        stages = build_from("torch", self.captured.text, find_target("sm_90a"), last="scheduled", signature=self.captured.signature).stages
        self.run = Simulated(stages["scheduled"], lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]))

    def __call__(self, *args):
        signature = self.captured.signature
        results = self.run(*signature.arguments_of(args, {}))
        return [r.as_eager(x.view(r.dtype)).float() for r, x in zip(signature.results, results)]


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_where_kernels_divide(name, dtype):
    """By a reciprocal, whose error rounding to 8 bits hides: no quotient is corrected, and none is made but by rows."""
    torch.manual_seed(0)
    model, shape = MODELS[name]
    x = torch.randn(shape).to(dtype)

    def wide(*args):
        found = model(*args)
        return [t.float() for t in found] if isinstance(found, tuple) else [found.float()]

    made = Scheduled(model, x)
    found = check(made, wide, (x,))
    assert found.right, str(found)
    gpu = made.run.gpu
    assert "llvm.nvvm.ff.to.e4m3x2.rn" in gpu and "arith.constant 126 : i32" not in gpu
    assert_assembles(gpu, find_target("sm_90a"))


def test_no_pairs_where_there_is_no_instruction():
    x = torch.randn(64)
    for target, some in (("sm_80", False), ("sm_89", True)):
        text = inferno.compile(lambda x: x.to(torch.float8_e4m3fn), (x,), target=target).ir("gpu")
        assert ("llvm.nvvm.ff.to" in text) == some
