"""Kernels on a GPU that go over rows of which some tensors lie with neighbouring rows and others with neighbouring points together: the numbers of schedules,
and of those that are chosen for programs of all sizes."""

import pytest
import torch
from checks import check, poison_memory
from on_gpu import on_hopper
from row_kernel_cases import PASSES
from transposed_row_cases import CASES, SHAPES, choose, norm_of_sum, normalize, softmax_of_transposed, transposed_softmax
from universal_program import compile_universal

import inferno

pytestmark = on_hopper


def right(compiled, model, args):
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)
    assert torch.equal(compiled(*args), compiled(*args)) if isinstance(compiled(*args), torch.Tensor) else True


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", SHAPES)
def test_schedules(name, shape):
    torch.manual_seed(0)
    model, args = CASES[name]()
    args = tuple(a.cuda() for a in args)
    right(compile_universal(model, args, args[0].device, "sm_90a", choose(shape), passes=PASSES), model, args)


PROGRAMS = {
    "transposed softmax": (transposed_softmax, lambda m, n: [(m, n)]),
    "softmax of transposed": (softmax_of_transposed, lambda m, n: [(n, m)]),
    "softmax of a copy": (lambda x: x.t().contiguous().softmax(0), lambda m, n: [(m, n)]),
    "normalize": (normalize, lambda m, n: [(m, n), (n, m)]),
    "norm of a sum": (norm_of_sum, lambda m, n: [(n, m), (m, n), (n,), (n,)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [(1024, 1024), (4096, 1024), (2000, 1001), (1001, 2000), (3333, 700), (8192, 4096), (16384, 512), (1000, 250)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["f32", "bf16", "f16"])
def test_chosen(name, shape, dtype):
    torch.manual_seed(0)
    program, shapes = PROGRAMS[name]
    args = tuple(torch.randn(s, device="cuda").to(dtype) for s in shapes(*shape))
    right(inferno.compile(program, args), program, args)
