"""Kernels that draw, as they are made for a GPU: the numbers by the simulator, and how often they are computed."""

import re

import pytest
import torch
from made_up_generator import MadeUp
from universal_program import Simulated

import inferno
from inferno.runtime.region import region as regions
from inferno.schedule.attributes import ATTRIBUTE, from_attribute
from inferno.schedule.maps.elementwise import Elementwise

native_dropout = torch.ops.aten.native_dropout


def compiled(f, *args):
    """The program of a function of tensors for sm_90a, whose arguments are the generator's states and then the function's."""
    used = MadeUp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regions, "generator_of", lambda device: used)
        patch.setattr("inferno.runtime.compile.generator_of", lambda device: used)
        return inferno.compile(f, args, target="sm_90a").programs[0]


def simulated(program):
    return Simulated(program.stages["scheduled"], lambda kernel: from_attribute(kernel.attributes[ATTRIBUTE]))


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_the_mask_of_a_dropout(dtype):
    x = torch.randn(75, 1024).to(dtype)
    program = compiled(lambda x: native_dropout(x, 0.2, True), x)
    value, mask = simulated(program)(*MadeUp().advance((4,)), x)
    expected = MadeUp().dropout(x, 0.2)
    assert torch.equal(mask, expected[1]) and torch.equal(value, expected[0])
    drawing = next(k for k in program.kernels.values() if "philox" in k.name)
    # Ten rounds of two products with a high word: a block of four words for each four neighbours, and not one for each element.
    blocks = {4: 1, 2: 2, 8: 1}[dtype.itemsize]
    assert len(re.findall(r"mul\.(hi|wide)\.u32", drawing.ptx)) <= 20 * blocks + 2


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype, vector, products", [(torch.float32, 4, {"i64"}), (torch.bfloat16, 8, {"i64", "vector<2xi64>"})], ids=["float32", "bfloat16"])
def test_the_numbers_of_neighbours_are_drawn_together(dtype, vector, products):
    """Where a row of the tensor is some vectors, a block of four words is computed once for the four points that have them."""
    x, y = torch.randn(40, 1024).to(dtype), torch.zeros(40, 1024).to(dtype)
    program = compiled(lambda x, y: native_dropout(x, 0.2, True)[0] + y, x, y)
    expected = MadeUp().dropout(x, 0.2)[0]
    order = re.findall(r'inferno.name = "x(\d)"', program.stages["fused"].split("func.func @main")[1].split("->")[0])
    given = dict(zip("0123", [*MadeUp().advance((4,)), x, y]))
    own = Simulated(program.stages["scheduled"], lambda kernel: Elementwise(vector=vector))
    assert torch.equal(own(*(given[n] for n in order))[0], expected)
    assert set(re.findall(r"arith\.muli .* : (.*i64.*)", own.gpu)) == products


def test_inside_another_kernel():
    x, y = torch.randn(40, 900), torch.randn(40, 900)
    program = compiled(lambda x, y: native_dropout(x, 0.2, True)[0].exp() * y + torch.rand(40, 900), x, y)
    arguments = [*MadeUp().advance((4 * (-(-36000 // 2048)), 4)), x, y]
    order = re.findall(r"tensor<([\w]+)>\s*{inferno.kind", program.stages["fused"].split("func.func @main")[1].split("->")[0])
    theirs = MadeUp()
    expected = theirs.dropout(x, 0.2)[0].exp() * y + theirs.rand(40, 900)
    states = iter(arguments[:3])
    given = [next(states) if t == "i64" else (x if i == order.index("40x900xf32") else y) for i, t in enumerate(order)]
    torch.testing.assert_close(simulated(program)(*given)[0], expected)
    assert len(program.kernels) == 1
