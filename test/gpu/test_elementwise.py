"""Elementwise kernels on the GPU against float64: types, ragged sizes, broadcasts, layouts, tables, special values."""

import pytest
import torch
from checks import assert_right, check
from stencil_cases import CASES as STENCILS, MODES, arguments

import inferno

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda").to(dtype)


def multiply_add_sigmoid(x, y, z):
    return torch.sigmoid(x * y + z)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1,), (7,), (1000,), (333, 777), (2048, 2048), (3, 5, 7, 11), ()])
def test_multiply_add_sigmoid(dtype, shape):
    assert_right(multiply_add_sigmoid, tuple(randn(*shape, dtype=dtype) for _ in range(3)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shapes", [
    ((64, 96), (96,)), ((64, 97), (97,)), ((64, 96), (64, 1)), ((63, 97), (63, 1)), ((8, 1, 32), (1, 16, 1)), ((5, 4, 3), (4, 1)),
    ((2, 16, 31, 33), (16, 1, 1)), ((1,), (100, 3)),
])
def test_broadcasts(dtype, shapes):
    assert_right(lambda a, b: (a + b) * a, tuple(randn(*s, dtype=dtype) for s in shapes))


@pytest.mark.parametrize("function", [
    torch.tanh, torch.sigmoid, torch.exp, torch.erf, torch.sqrt, torch.rsqrt, torch.log, torch.sin, torch.nn.functional.gelu,
    torch.nn.functional.silu, torch.nn.functional.softplus, torch.relu, torch.abs, torch.floor, torch.reciprocal,
    lambda x: torch.nn.functional.gelu(x, approximate="tanh"), lambda x: x**3, lambda x: x**2, lambda x: x**0.5, lambda x: x**-2,
], ids=lambda f: getattr(f, "__name__", "f"))
@pytest.mark.parametrize("dtype", FLOATS)
def test_functions(function, dtype):
    compiled = assert_right(function, (randn(333, 65, dtype=dtype),))
    for scale in (0.01, 10.0):
        found = check(compiled, function, (randn(333, 65, dtype=dtype) * scale,))
        assert found.right, f"scale {scale}: {found}"


@pytest.mark.parametrize("function", [
    torch.tanh, torch.sigmoid, torch.exp, torch.nn.functional.silu, torch.nn.functional.gelu, torch.relu, lambda x: x**3,
], ids=["tanh", "sigmoid", "exp", "silu", "gelu", "relu", "cube"])
def test_special_values(function):
    values = [float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 1e-45, -1e-45, 1e-38, 88.7, -88.7, 1e4, -1e4, 3.4e38, -3.4e38]
    x = torch.tensor(values, device="cuda")
    ours, eager = inferno.compile(function, (x,))(x), function(x)
    assert torch.equal(ours.isnan(), eager.isnan()) and torch.equal(ours.isinf(), eager.isinf())
    assert torch.equal(torch.signbit(ours.nan_to_num()), torch.signbit(eager.nan_to_num()))
    torch.testing.assert_close(ours, eager, rtol=4e-7, atol=1e-44, equal_nan=True)


@pytest.mark.parametrize("function", [torch.tanh, torch.sigmoid, torch.nn.functional.silu, torch.exp])
def test_far_from_the_origin(function):
    compiled = assert_right(function, (5 + randn(5000),))
    for value in (1e-3, -20.0, -80.0, -88.0, 60.0):
        found = check(compiled, function, (value + 0.01 * randn(5000).abs(),))
        assert found.right, f"at {value}: {found}"


@pytest.mark.parametrize("layout", [
    lambda x: x.transpose(0, 1), lambda x: x.permute(2, 0, 1), lambda x: x.flip(1), lambda x: x[:, 1::3], lambda x: x[:, :, 5:],
    lambda x: x.permute(1, 0, 2) + 1, lambda x: x.transpose(1, 2).contiguous() * 2, lambda x: torch.roll(x, 3, 1),
])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layouts(layout, dtype):
    assert_right(lambda x: layout(x) * 1.5, (randn(30, 48, 64, dtype=dtype),))


def test_transpose_of_a_large_matrix():
    assert_right(lambda x, y: x.t() + y, (randn(1111, 2050), randn(2050, 1111)))


def test_comparisons_masks_and_integers():
    x, y = randn(65, 33), randn(65, 33)
    assert_right(lambda x, y: x > y, (x, y))
    assert_right(lambda x, y: torch.where(x > y, x, y * 2), (x, y))
    assert_right(lambda m, y: y.masked_fill(m, -1.0), (x > 0, y))
    i = torch.randint(-1000, 1000, (65, 33), device="cuda")
    assert_right(lambda i: (i * 3 + 1) // 7, (i,))
    assert_right(lambda i: i.to(torch.int32) * 2 - 1, (i,))
    assert_right(lambda i: (i % 5 == 0) & (i > 3), (i,))
    assert_right(lambda x: x.to(torch.int64), (x * 100,))


def test_several_results_and_types():
    assert_right(lambda x, y: (x + y, (x * y).bfloat16(), x > y), (randn(129, 257), randn(129, 257)))


@pytest.mark.parametrize("width", [64, 65])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_embedding(width, dtype):
    table, ids = randn(100, width, dtype=dtype), torch.randint(0, 100, (7, 13), device="cuda")
    assert_right(lambda ids, table: torch.nn.functional.embedding(ids, table), (ids, table))
    assert_right(lambda table, ids: table.index_select(0, ids), (table, ids[0]))


def test_creation():
    assert_right(lambda x: torch.arange(37, device=x.device, dtype=x.dtype)[:, None] + x, (randn(37, 5),))
    assert_right(lambda x: x + torch.ones_like(x).tril(), (randn(33, 33),))


def test_new_values_of_the_same_shape():
    compiled = inferno.compile(multiply_add_sigmoid, tuple(randn(100, 100) for _ in range(3)))
    found = check(compiled, multiply_add_sigmoid, tuple(randn(100, 100) for _ in range(3)))
    assert found.right, str(found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.bool, torch.int64])
def test_transposes_by_vectors(dtype):
    """Of tiles that the tensor fills and does not, of two inputs, beside others, and of a body that knows where it is."""
    def tensor(*shape):
        x = torch.randn(shape, device="cuda")
        return x > 0 if dtype == torch.bool else (10 * x).to(dtype)

    for m, n in ((512, 1024), (1008, 528), (144, 80), (4112, 6160), (516, 1028), (4100, 6156)):
        x = tensor(m, n)
        own = inferno.compile(lambda x: x.t().contiguous(), (x,))
        assert torch.equal(own(x), x.t()) and any("vector = 1 " not in str(k.schedule) for k in own.programs[0].kernels.values())
    for m, n in ((514, 1026), (4098, 6154), (130, 4098)):  # of which some lie in narrower vectors, and others do not
        x, y = tensor(m, n), tensor(n, m)
        own = inferno.compile(lambda x, y: (x.t() | y if dtype == torch.bool else x.t() + y).contiguous(), (x, y))
        assert torch.equal(own(x, y), x.t() | y if dtype == torch.bool else x.t() + y)
    x = tensor(6, 64, 144)
    own = inferno.compile(lambda x: x.permute(2, 0, 1).contiguous(), (x,))
    assert torch.equal(own(x), x.permute(2, 0, 1))
    if dtype != torch.bool:
        x, y, z = tensor(3, 144, 272), tensor(3, 144, 272), tensor(3, 272, 144)
        assert_right(lambda x, y, z, b: (x.mT * y.mT + z).contiguous() - b, (x, y, z, tensor(272, 1)))
        assert_right(lambda x: torch.triu(x[0].t().contiguous()), (x,))


@pytest.mark.parametrize("scale", [0.01, 1.0, 8.0])
def test_gelu_of_16_bits(scale):
    for dtype in (torch.bfloat16, torch.float16):
        assert_right(torch.nn.functional.gelu, (randn(333, 65, dtype=dtype) * scale,))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", STENCILS)
def test_neighbours_beyond_a_border(name, mode, dtype):
    assert_right(STENCILS[name][0](mode), arguments(name, dtype, "cuda"))
