"""What is found of kernels is found once for equal ones, and again where something that it rests on is another thing; programs become the same with it."""

import contextlib

import pytest
import torch
from torch import nn

from inferno.capture import capture
from inferno.mlir import idle_context, ir
from inferno.passes.programs import PRECISION, UNMEASURED, takes_tf32, takes_unmeasured
from inferno.runtime.workers import jobs
from inferno.schedule.analysis.unchanged import asked_once, kept_with, read_by_text, texts_read_once, unchanged
from inferno.schedule.matmul import wgmma
from inferno.schedule.matmul.parser import parse_contraction
from inferno.target import find_target

PRODUCT = """
func.func private @{name}(%x: tensor<64x128xf32>, %w: tensor<128x{columns}xf32>, %o: tensor<64x{columns}xf32>) -> tensor<64x{columns}xf32> {{
  %zero = arith.constant 0.0 : f32
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<64x{columns}xf32>) -> tensor<64x{columns}xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<64x128xf32>, tensor<128x{columns}xf32>) outs(%f : tensor<64x{columns}xf32>) -> tensor<64x{columns}xf32>
  return %0 : tensor<64x{columns}xf32>
}}"""


def kernels(*columns, context=None):
    context = context or idle_context()
    with context, ir.Location.unknown():
        module = ir.Module.parse("\n".join(PRODUCT.format(name=f"k{n}", columns=c) for n, c in enumerate(columns)))
        return module, list(module.body.operations)


def test_equal_kernels_are_read_once():
    _module, (one,) = kernels(32)
    _other, (other, wide) = kernels(32, 48, context=one.context)
    assert parse_contraction(one) is not parse_contraction(one)
    with texts_read_once():
        found = parse_contraction(one)
        assert parse_contraction(one) is found and parse_contraction(other) is found
        assert (found.N, parse_contraction(wide).N) == (32, 48)
    with texts_read_once():
        assert parse_contraction(one) is not found


def test_changed_kernels_are_read_again():
    @read_by_text
    def reads(kernel):
        return takes_tf32(kernel), len(kernel.entry_block.operations)

    _module, (kernel,) = kernels(32)
    with texts_read_once():
        assert reads(kernel) == (False, 4)
        kernel.attributes[PRECISION] = ir.StringAttr.get("tf32", kernel.context)
        assert reads(kernel) == (True, 4)
        zero = kernel.entry_block.operations[0].operation
        with ir.InsertionPoint(zero):
            zero.clone()
        assert reads(kernel) == (True, 5)


def test_what_modules_ask_for_tells_kernels_apart():
    @read_by_text
    def reads(kernel):
        return takes_unmeasured(kernel.operation)

    module, (kernel,) = kernels(32)
    with texts_read_once():
        assert not reads(kernel)
        module.operation.attributes[UNMEASURED] = ir.UnitAttr.get(kernel.context)
        assert reads(kernel)


def test_unchanged_kernels_are_asked_once():
    asked = []

    @asked_once
    def ask(kernel, number=0):
        asked.append(number)
        return len(asked)

    _module, (kernel, other) = kernels(32, 48)
    assert [ask(kernel), ask(kernel)] == [1, 2]
    with unchanged(kernel):
        assert [ask(kernel), ask(kernel), ask(kernel, 1), ask(other), ask(other)] == [3, 3, 4, 5, 6]
        with unchanged(kernel):
            assert ask(kernel) == 3
        with unchanged(other):
            assert [ask(other), ask(other), ask(kernel)] == [7, 7, 8]
        assert ask(kernel) == 3


def test_candidates_are_no_list_of_all_that_ask():
    target = find_target("sm_90a")
    _module, (kernel,) = kernels(256)
    kernel.attributes[PRECISION] = ir.StringAttr.get("tf32", kernel.context)
    c = parse_contraction(kernel)
    found = wgmma.candidates(kernel, c, target)
    count = len(found)
    found.clear()
    assert count and len(wgmma.candidates(kernel, c, target)) == count


def test_what_is_kept_goes_by_arguments():
    asked = []

    @kept_with
    def ask(c, number):
        asked.append(number)
        return number + c.N

    _module, (kernel,) = kernels(32)
    c, same = parse_contraction(kernel), parse_contraction(kernel)
    assert [ask(c, 1), ask(c, 1), ask(c, 2), ask(same, 1)] == [33, 33, 34, 33] and asked == [1, 2, 1]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.attend, self.norm = nn.Linear(64, 192), nn.Linear(64, 64), nn.LayerNorm(64)
        self.mix = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))

    def forward(self, x):
        q, k, v = self.enter(self.norm(x)).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        x = x + self.attend((torch.softmax(q @ k.mT / 4, -1) @ v).transpose(1, 2).flatten(2))
        return x + self.mix(self.norm(x))


def pieces(x):
    y = torch.cat((x[:, :4], x[:, 4:] * x[:, :-4]), 1)
    return torch.cat((y[:, :8].t(), torch.log_softmax(y, 0)[:, 8:].t()), 0), (x * x).sum(0), y.cumsum(-1)


@pytest.mark.covering
@pytest.mark.parametrize("target", ["sm_90a", "cpu"])
@pytest.mark.parametrize("name", ["block", "pieces", "convolution"])
def test_programs_are_the_same_without(name, target, monkeypatch):
    function, *args = {
        "block": lambda: (Block().eval(), torch.zeros(2, 24, 64)),
        "pieces": lambda: (pieces, torch.zeros(32, 16)),
        "convolution": lambda: (nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()).eval(), torch.zeros(1, 8, 16, 16)),
    }[name]()
    with torch.no_grad():
        linalg, _ = jobs.lower_to_linalg(capture(function, tuple(args)).text)
    once = jobs.fuse(linalg, target)
    monkeypatch.setattr(jobs, "texts_read_once", contextlib.nullcontext)
    again = jobs.fuse(linalg, target)
    assert once.stages == again.stages and once.kernels == again.kernels
