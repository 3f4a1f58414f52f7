"""Kernels that go over rows of which some tensors lie with neighbouring rows and others with neighbouring points together: their numbers on a simulated GPU,
what they are made of, and of which programs they are."""

from dataclasses import replace

import pytest
import torch
from checks import check
from choices import generators
from row_kernel_cases import PASSES
from transposed_row_cases import CASES, SHAPES, choose, norm_of_sum, normalize, softmax_of_transposed, transposed_softmax
from universal_program import SimulatedModel, assert_assembles

from inferno.errors import CompileError
from inferno.target import find_target


def simulated(name, shape, change=lambda s: s):
    torch.manual_seed(0)
    model, args = CASES[name]()

    def chosen(kernel):
        s = choose(shape)(kernel)
        return s and change(s)

    return SimulatedModel(model, args, choose=chosen, passes=PASSES), model, args


@pytest.mark.covering
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", SHAPES)
def test_right(name, shape):
    made, model, args = simulated(name, shape)
    assert len(made.program.plan.steps) == 1
    found = check(made, model, args)
    assert found.right, str(found)


@pytest.mark.parametrize("name", ["norm of a sum f32", "norm of a sum bf16"])
def test_moments(name):
    """A row's mean and deviation, taken at once by a cluster."""
    made, model, args = simulated(name, "four blocks", lambda s: replace(s, once=True))
    found = check(made, model, args)
    assert found.right, str(found)


def test_a_tile_is_filled_and_its_place_taken():
    """A result that lies as what is read has its tile: of 16 rows, and of the 65 points of 32 threads, three each."""
    made, _, _ = simulated("norm of a sum f32", "held")
    (launch,) = made.program.plan.steps
    assert launch.shared == 16 * 96 * 4
    assert_assembles(str(made.program.gpu), find_target("sm_90a"))


def test_what_does_not_fit_is_refused():
    with pytest.raises(CompileError, match="does not fit 72 rows of 300"):
        simulated("softmax f32", "held", lambda s: replace(s, unroll=1))


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("program, shapes, dtype, count", [
    (transposed_softmax, [(4096, 1024)], torch.bfloat16, 1),
    (transposed_softmax, [(4096, 1024)], torch.float32, 1),
    (softmax_of_transposed, [(1500, 8192)], torch.bfloat16, 1),
    (lambda x: x.t().contiguous().softmax(0), [(4096, 1024)], torch.bfloat16, 1),
    (normalize, [(4096, 1024), (1024, 4096)], torch.float32, 1),
    (norm_of_sum, [(1024, 4096), (4096, 1024), (1024,), (1024,)], torch.bfloat16, 1),
    (transposed_softmax, [(4096, 100000)], torch.float32, 0),
    (transposed_softmax, [(64, 48)], torch.float32, 0),
    (transposed_softmax, [(3001, 1999)], torch.bfloat16, 0),  # whose vectors are single elements either way
])
def test_chosen(program, shapes, dtype, count):
    """Where rows fit, and launches are not all that takes time."""
    found = generators(program, tuple(torch.empty(s, dtype=dtype) for s in shapes))
    assert found.count("transposed_rows") == count and (not count or len(found) == 1), found
