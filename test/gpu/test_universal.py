"""The universal generator's kernels on the GPU, one model for each kind of operation, against float64."""

import pytest
import torch
from checks import check, poison_memory
from universal_cases import CASES
from universal_program import compile_universal

import inferno
from inferno.runtime.device import target_of


# Eager itself does not run these on a GPU: a constant on the CPU, and integer matmuls.
NOT_ON_CUDA = {"constants", "matmul i64"}


@pytest.mark.parametrize("name", [c for c in CASES if c not in NOT_ON_CUDA])
def test_right(name):
    model, args = CASES[name]()
    model, args = model.cuda(), tuple(a.cuda() for a in args)
    before = [a.clone() for a in args]
    device = args[0].device
    compiled = compile_universal(model, args, device, target_of(device).name)
    poison_memory()
    found = check(compiled, model, args)
    assert found.right, str(found)
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(args, before)), "an input was written to"


def _places(count, *shape):
    return torch.randint(count, shape, device="cuda")


@pytest.mark.parametrize("name", ["add", "largest integer", "put", "put f64", "embedding bf16", "pooling"])
def test_updates_that_meet(name):
    """Thousands of updates of some places; sums of whole numbers, which are exact in any order."""
    whole = lambda *shape, dtype=torch.float32: torch.randint(-9, 9, shape, device="cuda").to(dtype)  # noqa: E731
    grid = torch.randn(4, 8, 33, 31, device="cuda")
    pooled, where = torch.ops.aten.max_pool2d_with_indices(grid, [3, 3], [2, 2], [1, 1])
    function, args = {
        "add": (lambda x, i, v: x.scatter_add(0, i, v), (whole(50, 70), _places(50, 3000, 70), whole(3000, 70))),
        "largest integer": (lambda x, i, v: x.scatter_reduce(0, i, v, "amax"), (_places(9, 50), _places(50, 3000), _places(99, 3000))),
        "put": (lambda x, i, v: x.index_put((i,), v, accumulate=True), (whole(50, 7), _places(50, 3000), whole(3000, 7))),
        "put f64": (
            lambda x, i, v: x.index_put((i,), v, accumulate=True),
            (whole(50, dtype=torch.float64), _places(50, 3000), whole(3000, dtype=torch.float64)),
        ),
        "embedding bf16": (
            lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 100, -1, False), (whole(8, 128, 64, dtype=torch.bfloat16), _places(100, 8, 128)),
        ),
        "pooling": (
            lambda g, x, i: torch.ops.aten.max_pool2d_with_indices_backward(g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, i),
            (whole(*pooled.shape), grid, where),
        ),
    }[name]
    compiled = inferno.compile(function, args, fallback=False)
    for _ in range(3):
        assert torch.equal(compiled(*args), function(*args))


@pytest.mark.parametrize("name", ["one by one", "looked for", "added up by the memory", "a thread each"])
def test_nothing_is_written_out_of_range(name):
    """Eager would stop the device at these; between two blocks of the destination's own memory nothing changes."""
    count = 3000 if name == "added up by the memory" else 6
    i = torch.tensor([1, 9, -1, 1 << 32, -(1 << 40), 3], device="cuda").repeat(count // 6)
    v = torch.randint(-9, 9, (count, 3), device="cuda").float()
    function, inside = {
        "one by one": (lambda x, i, v: x.scatter(0, i[:, None].expand(-1, 3), v), (i == 1) | (i == 3)),
        "looked for": (lambda x, i, v: x.scatter_reduce(0, i[:, None].expand(-1, 3), v, "prod"), (i == 1) | (i == 3)),
        "added up by the memory": (lambda x, i, v: x.scatter_add(0, i[:, None].expand(-1, 3), v), (i == 1) | (i == 3)),
        "a thread each": (lambda x, i, v: x.index_put((i,), v), (i == 1) | (i == 3) | (i == -1)),
    }[name]
    x = torch.randint(-9, 9, (5, 3), device="cuda").float()
    compiled = inferno.compile(function, (x, i, v), fallback=False)
    assert torch.equal(compiled(x, i, v), function(x, i[inside], v[inside]))


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_integers_divide_exactly(mode):
    x = torch.tensor([-(1 << 63) + 1, (1 << 63) - 1, -7, 7, 1 << 60], device="cuda")
    y = torch.tensor([3, -7, 2, -2, 10], device="cuda")

    def divide(x, y):
        return torch.div(x, y, rounding_mode=mode), torch.fmod(x, y), x % y, torch.div(x, 3, rounding_mode=mode), torch.fmod(x, 3)

    compiled = inferno.compile(divide, (x, y), fallback=False)
    assert all(torch.equal(a, b) for a, b in zip(compiled(x, y), divide(x, y)))


@pytest.mark.parametrize("shape", [(1,), (1, 1), (0, 3), (0, 10, 3), (2, 3)])
def test_complex_numbers_of_compiled_parts(shape):
    """``view_as_complex`` looks at the strides of what a segment made, also of one element or none."""
    torch._dynamo.reset()
    size, angle = torch.rand(shape, device="cuda"), torch.rand(shape, device="cuda")
    found = torch.compile(torch.polar, backend="inferno", dynamic=False)(size, angle)
    torch.testing.assert_close(found, torch.polar(size, angle))
    assert found.stride() == torch.polar(size, angle).stride()


def test_deterministic_algorithms_are_torchs():
    args = torch.zeros(50, device="cuda"), _places(50, 3000), torch.randn(3000, device="cuda")
    torch.use_deterministic_algorithms(True)
    try:
        compiled = inferno.compile(lambda x, i, v: x.index_add(0, i, v) * 2, args)
        first = compiled(*args)
        assert compiled.fallbacks and all(torch.equal(first, compiled(*args)) for _ in range(5))
    finally:
        torch.use_deterministic_algorithms(False)
