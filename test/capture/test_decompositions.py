"""The decompositions as functions: each against torch's operator and float64, also of NaN, infinities, ties and empty tensors."""

import pytest
import torch
from torch.export import Dim
from checks import assert_right
from decomposition_checks import EDGES, OF_NUMBERS, aten, check, inf, nan, normal, same, whole

import inferno
from inferno.capture.decompositions import lists, own
from inferno.runtime.check.comparison import compare
from inferno.tools.check import to_float64



@pytest.mark.parametrize("name", OF_NUMBERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_functions_of_one_number(name, dtype):
    op = getattr(aten, name).default
    unknown = {torch.int64: ("elu",), torch.bfloat16: ("special_erfcx", "special_log_ndtr", "special_modified_bessel_i0", "special_modified_bessel_i1")}
    if name in unknown.get(dtype, ()):
        pytest.skip("torch has no such operator on the CPU")
    for x in (EDGES, normal(2000), normal(2000, scale=1e-4), normal(2000, scale=8), torch.rand(500) * 2 - 1, torch.empty(0, 3), torch.tensor(0.3)):
        if not dtype.is_floating_point:
            x = x[x.isfinite()]
        check(op, x.to(dtype))


@pytest.mark.parametrize("n", range(5))
def test_polygamma(n):
    check(aten.polygamma.default, n, torch.cat([normal(500, scale=3) + 0.01, torch.tensor([inf, nan, 1.0, 0.5, 20.0])]))


def test_float64_is_left_to_torch():
    for name in ("lgamma", "digamma", "i0", "erfc", "erfinv", "sinh", "cosh"):
        assert own()[getattr(aten, name).default](normal(3).double()) is NotImplemented


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin", "hypot", "nextafter", "logaddexp", "logaddexp2"])
def test_functions_of_two_numbers(name, dtype):
    x = torch.cat([EDGES, normal(20, scale=3)]).to(dtype)
    if name.startswith("logaddexp"):  # 1 + exp(-40) and the like are out of eager's digits, not of ours
        check(getattr(aten, name).default, x[x.abs() != inf][:, None], x[x.abs() != inf][None])
    elif name == "nextafter":
        same(aten.nextafter.default, x[:, None].expand(-1, len(x)), x[None].expand(len(x), -1))
    else:
        check(getattr(aten, name).default, x[:, None].expand(-1, len(x)).contiguous(), x[None].expand(len(x), -1).contiguous())


def test_maxima_of_infinities():
    x = torch.tensor([inf, -inf, nan, 1.0])
    for op in (aten.logaddexp.default, aten.logaddexp2.default, aten.maximum.default, aten.minimum.default):
        same(op, x[:3, None], x[None, :3])


def test_clamps_keep_nan():
    low, high = torch.tensor(-1.0), torch.tensor([nan, 0.5])
    for x in (EDGES[:, None], EDGES.to(torch.bfloat16)[:, None]):
        same(aten.clamp.default, x, -1, 0.5)
        same(aten.clamp.default, x, None, 0.5)
        same(aten.clamp.default, x, nan, 1)
        same(aten.clamp.default, x, 2, -2)
        same(aten.clamp_min.default, x, 0.5)
        same(aten.clamp_max.default, x, 0.5)
        same(aten.hardtanh.default, x, -0.5, 3)
        same(aten.clamp.Tensor, x, low, high)
        same(aten.clamp_min.Tensor, x, high)
        same(aten.clamp_max.Tensor, x, high)


@pytest.mark.parametrize("shape", [(), (5,)])
def test_clamps_of_several_types(shape):
    whole, longer = torch.arange(-2, 3, dtype=torch.int32)[: None if shape else 1].reshape(shape), torch.full(shape, 1)
    for x, low, high in ((whole, longer - 2, longer), (whole, longer.to(torch.int8), None), (whole.bool(), longer - 2, longer), (longer, whole, whole + 1)):
        assert torch.equal(own()[aten.clamp.Tensor](x, low, high), torch.clamp(x, low, high))
        fast = inferno.compile(torch.clamp, (x, low, high), target="cpu", fallback=False)
        assert torch.equal(fast(x, low, high), torch.clamp(x, low, high)) and fast(x, low, high).dtype == torch.clamp(x, low, high).dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_quotients_and_remainders(dtype):
    edges = torch.cat([EDGES, torch.tensor([1e10, 0.1, -0.3, 7.0])]).to(dtype)
    x, y = edges[:, None], edges[None]
    same(aten.fmod.Tensor, x, y)
    same(aten.fmod.Scalar, edges, 0.3)
    if dtype in (torch.float32, torch.float64):
        same(aten.div.Tensor_mode, x, y, rounding_mode="floor")
        same(aten.div.Scalar_mode, edges, 0.1, rounding_mode="floor")
    else:
        check(aten.div.Tensor_mode, x, y, rounding_mode="floor")
    assert own()[aten.div.Tensor_mode](torch.tensor(1.0), torch.tensor(0.1), rounding_mode="floor") == 9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_signs_of_zeros_and_nan(dtype):
    def signs(x):
        return torch.signbit(x), torch.copysign(torch.ones_like(x), x), torch.trunc(x), torch.frac(x), x.flip(0).copysign(x)

    x = torch.tensor([nan, -nan, 0.0, -0.0, 0.5, -0.5, -1.5, inf, -inf, -1e-30]).to(dtype)
    for ours, eager in zip(inferno.compile(signs, (x,), fallback=False)(x), signs(x)):
        assert torch.equal(ours.isnan(), eager.isnan()) and torch.equal(ours.nan_to_num(), eager.nan_to_num())
        assert torch.equal(ours.signbit() | ours.isnan(), eager.signbit() | eager.isnan())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_rounded_to_tens(dtype):
    x = torch.cat((EDGES, normal(2000, scale=200.0), torch.arange(-300, 300) * 0.5)).to(dtype)
    for decimals in (-1, -2, -5):
        same(aten.round.decimals, x, decimals=decimals)
        compiled = inferno.compile(lambda x, d=decimals: x.round(decimals=d), (x,), fallback=False)
        assert torch.equal(compiled(x).nan_to_num(7.25), x.round(decimals=decimals).nan_to_num(7.25))


def test_isclose():
    x = torch.cat([EDGES, EDGES + 1e-9, EDGES * (1 + 1e-6)])
    for nans in (False, True):
        same(aten.isclose.default, x[:, None], x[None], equal_nan=nans)
    same(aten.isclose.default, x[:, None], x[None], 0.0, 0.0)
    same(aten.isclose.default, x > 0, x > 1)
    same(aten.isclose.default, whole(9)[:, None], whole(9)[None])


RANGES = [(10000,), (300.0,), (7, 300.0, 1.3), (0, 1, 0.1), (5.0, -3.0, -0.7), (2, 2), (1 << 24, (1 << 24) + 9, 2), (-3, 400, 7)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, None], ids=str)
@pytest.mark.parametrize("numbers", RANGES, ids=str)
def test_ranges(numbers, dtype):
    """Each number is rounded once from float64, whose own rounding is another where a multiply-add rounds once."""
    exact = torch.arange(*numbers, dtype=torch.float64)
    mine = own()[aten.arange.start_step](*((0, *numbers) if len(numbers) == 1 else numbers), dtype=dtype)
    if dtype is None and all(isinstance(n, int) for n in numbers):
        assert mine is NotImplemented
    else:
        rounding = 2.0**-52 * exact.abs().max() if exact.numel() and dtype is torch.float64 else 0.0
        torch.testing.assert_close(mine, exact.to(dtype or torch.float32), rtol=0, atol=float(rounding))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_ranges_have_all_their_elements(dtype):
    """10000 is 9984 in bf16."""
    ours = inferno.compile(lambda x: torch.arange(10000, dtype=dtype) + x, (torch.zeros(1, dtype=dtype),), target="cpu")
    assert torch.equal(ours(torch.zeros(1, dtype=dtype)), torch.arange(10000.0).to(dtype))


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.float16], ids=str)
def test_ranges_to_a_size_that_varies(dtype):
    """Places are counted in 64 bits, for so many may a size be, and steps that are written as floats are the integers that they are."""
    def model(x):
        n = x.shape[0]
        whole = torch.arange(n, dtype=dtype) + x, torch.arange(2, 3 * n, 2, dtype=dtype), torch.arange(n, -n, -1.0, dtype=dtype)
        return *whole, torch.arange(0.0, n), torch.arange(0, n, 2.0)

    ours = inferno.compile(model, (torch.zeros(12, dtype=dtype),), dynamic_shapes=({0: Dim.AUTO},), target="cpu", fallback=False)
    for count in (12, 5, 90):
        x = torch.full((count,), 3, dtype=dtype)
        assert all(map(torch.equal, ours(x), model(x)))


def test_evenly_spaced_numbers():
    compiled = torch.compile(lambda: (torch.linspace(4.3, -3, 50, dtype=torch.int64), torch.linspace(-1, 2, 9), torch.logspace(0, 3, 7)), backend="inferno")
    whole, line, powers = compiled()
    assert torch.equal(whole, torch.linspace(4.3, -3, 50, dtype=torch.int64))
    torch.testing.assert_close((line, powers), (torch.linspace(-1, 2, 9), torch.logspace(0, 3, 7)))


def test_evenly_spaced_numbers_of_a_size_that_varies():
    """torch.export would take the size for a known one."""
    def model(x):
        n = x.shape[0]
        return torch.linspace(-1, 1, n), torch.linspace(0.5, 3.0, 2 * n, dtype=torch.float64), torch.linspace(1, 0, n) + x

    compiled = inferno.compile(model, (torch.zeros(12),), dynamic_shapes=({0: Dim("n", min=2, max=500)},), target="cpu", fallback=False)
    for count in (12, 2, 301):
        x = torch.randn(count)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-6, atol=1e-7)
        assert all(a[-1] == b[-1] and a.dtype == b.dtype for a, b in zip(compiled(x)[:2], model(x)))


def test_frexp():
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = torch.cat([EDGES, 2.0 ** torch.arange(-149, 128.0), normal(100)]).to(dtype)
        same(aten.frexp.Tensor, x[x.isfinite()])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.uint8], ids=str)
def test_running_products(dtype):
    x = whole(4, 5, 3, high=4).to(dtype)
    for dim in (0, 1, -1):
        same(aten.cumprod.default, x, dim)
    same(aten.cumprod.default, x[:, :0], 1)


def test_running_products_of_another_type():
    check(aten.cumprod.default, normal(4, 5), -1, dtype=torch.float64)
    check(aten.cumprod.default, whole(4, 5), 0, dtype=torch.float32)


def test_masks():
    x, mask, values = normal(4, 5), whole(4, 5, high=2).bool(), normal(20)
    same(aten.masked_scatter.default, x, mask, values)
    same(aten.masked_scatter.default, x, mask[0], values)
    same(aten.masked_scatter.default, x, ~mask & mask, values)
    count = int(mask.sum())
    same(aten.index_put.default, x, [mask], values[:count])
    same(aten.index_put.default, x, [mask], values[:count], True)
    same(aten.index_put.default, x, [mask], values[:1])
    same(aten.index_put.default, x, [mask[:, 0]], normal(int(mask[:, 0].sum()), 5))
    same(aten.index_put.default, x, [None, mask[0]], normal(4, int(mask[0].sum())))
    same(aten.index_put.default, x, [None, mask[0]], torch.tensor(3.0))
    assert own()[aten.index_put.default](x.to("meta"), [mask[:, 0]], values[:5].to("meta")) is NotImplemented  # a mask on the CPU


def test_nonzero_static():
    x = whole(4, 5, high=2)
    for size in (1, int(x.sum()), 30):
        same(aten.nonzero_static.default, x, size=size)
        same(aten.nonzero_static.default, x, size=size, fill_value=7)
    same(aten.nonzero_static.default, x[:0], size=3)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments(reduce):
    data = normal(7, 3)
    lengths = torch.tensor([2, 0, 4, 1])
    for initial in (None, 1.5):
        check(aten.segment_reduce.default, data, reduce, lengths=lengths, initial=initial)
        check(aten.segment_reduce.default, data, reduce, offsets=torch.tensor([0, 2, 2, 6, 7]), initial=initial)
    check(aten.segment_reduce.default, data.T.contiguous(), reduce, lengths=lengths.expand(3, -1).contiguous(), axis=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_gradients_of_segments(reduce, dtype):
    data, grad = whole(9, 3, high=4).to(dtype), normal(5, 3).to(dtype)  # of which several are the greatest
    data[3, 1] = nan
    borders = {"lengths": torch.tensor([2, 0, 4, 1, 2])}, {"offsets": torch.tensor([0, 2, 2, 6, 7, 9])}, {"offsets": torch.tensor([1, 2, 2, 6, 7, 8])}
    for each in borders:
        for initial in (None, 2.0):
            output = aten.segment_reduce.default(data, reduce, initial=initial, unsafe=True, **each)
            check(aten._segment_reduce_backward.default, grad, output, data, reduce, initial=initial, **each)
    turned, lengths = data.T.contiguous(), torch.tensor([[2, 0, 4, 1, 2], [9, 0, 0, 0, 0], [0, 1, 1, 1, 6]])
    output = aten.segment_reduce.default(turned, reduce, lengths=lengths, axis=1)
    check(aten._segment_reduce_backward.default, grad.T.contiguous(), output, turned, reduce, lengths=lengths, axis=1)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"include_last_offset": True}], ids=str)
def test_bags_of_embeddings(mode, options):
    weight, indices = normal(6, 4), torch.tensor([1, 2, 4, 5, 0, 3, 2])
    offsets = torch.tensor([0, 3, 3, 7] if options.get("include_last_offset") else [0, 3, 3])
    weights = normal(7) if mode == 0 else None
    args = (weight, indices, offsets, False, mode, False, weights, options.get("include_last_offset", False), options.get("padding_idx", -1))
    mine, theirs = own()[aten._embedding_bag.default](*args), aten._embedding_bag(*args)
    exact = aten._embedding_bag(*to_float64(args))
    assert compare(mine[0], theirs[0], exact[0]).right
    if mode:  # of sums torch does not fill the others in
        assert torch.equal(mine[2], theirs[2]) and torch.equal(mine[3], theirs[3])


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [-1, 2])
def test_gradients_of_bags_of_embeddings(mode, padding):
    weight, indices, offsets, grad = normal(6, 4), torch.tensor([1, 2, 4, 5, 0, 3, 2]), torch.tensor([0, 3, 3]), normal(3, 4) + 1
    weights = normal(7) if mode == 0 else None
    _, bags, sizes, places = own()[aten._embedding_bag.default](weight, indices, offsets, False, mode, False, weights, False, padding)
    _, *of_torch = aten._embedding_bag(weight, indices, offsets, False, mode, False, weights, False, padding)
    rest = 6, False, mode, False, weights, padding
    mine = own()[aten._embedding_bag_backward.default](grad, indices, offsets, bags, sizes, places, *rest)
    theirs, exact = (aten._embedding_bag_backward(g, indices, offsets, *of_torch, *r) for g, r in ((grad, rest), to_float64((grad, rest))))
    assert compare(mine, theirs, exact).right
    assert own()[aten._embedding_bag_backward.default](grad, indices, offsets, bags, sizes, places, 6, True, *rest[2:]) is NotImplemented
    if mode == 0:
        args = grad, weight, indices, offsets
        mine = own()[aten._embedding_bag_per_sample_weights_backward.default](*args, bags, mode, padding)
        theirs, exact = (aten._embedding_bag_per_sample_weights_backward(*given, of_torch[0], mode, padding) for given in (args, to_float64(args)))
        assert compare(mine, theirs, exact).right


@pytest.mark.parametrize("norm", [1.0, 2.0, inf])
def test_embedding_renorm(norm):
    weight, indices = normal(6, 4), torch.tensor([[0, 2], [2, 5]])
    mine = own()[aten.embedding_renorm.default](weight, indices, 1.0, norm)
    theirs = torch.embedding_renorm_(weight.clone(), indices, 1.0, norm)
    assert compare(mine, theirs, torch.embedding_renorm_(weight.double(), indices, 1.0, norm)).right


@pytest.mark.parametrize("reduce", ["mean", "prod", "amin", "amax"])
@pytest.mark.parametrize("include_self", [True, False])
def test_index_reduce(reduce, include_self):
    index = torch.tensor([3, 0, 3, 1])
    for dim in (0, -2, 1):
        source = normal(4, 5) if dim != 1 else normal(4, 4)
        check(aten.index_reduce.default, normal(4, 5), dim, index, source, reduce, include_self=include_self)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes, padding", [
    ((5,), [2, 3]), ((1,), [2, 1]), ((2,), [0, 4]), ((4, 6), [1, 0, 2, 1]), ((4, 6), [0, 0, 3, 6]), ((3, 2, 4), [1, 2, 0, 1, 2, 2]),
])
def test_gradients_of_padding_by_the_nearest(sizes, padding, dtype):
    x = normal(2, 3, *sizes).to(dtype)
    rank = len(sizes)
    grad = normal(2, 3, *(n + padding[2 * (rank - 1 - d)] + padding[2 * (rank - 1 - d) + 1] for d, n in enumerate(sizes))).to(dtype)
    check(getattr(aten, f"replication_pad{rank}d_backward").default, grad, x, padding)
    check(getattr(aten, f"replication_pad{rank}d_backward").default, grad[0], x[0], padding)


@pytest.mark.thorough
def test_gradients_of_padding_by_the_nearest_where_sizes_vary():
    def padded(x):
        return torch.nn.functional.pad(x, (1, 2, 3, 0), mode="replicate")

    compiled = torch.compile(padded, backend="inferno", dynamic=True)
    for sizes in ((5, 7), (2, 3), (4, 2)):
        x = torch.arange(2.0 * sizes[0] * sizes[1]).reshape(1, 2, *sizes).requires_grad_()
        weights = torch.arange(2.0 * (sizes[0] + 3) * (sizes[1] + 3)).reshape(1, 2, sizes[0] + 3, sizes[1] + 3)
        assert torch.equal(*(torch.autograd.grad((f(x) * weights).sum(), x)[0] for f in (compiled, padded)))
    assert not inferno.explain(compiled).fallbacks


@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("dims", [[1, 2], [0, 2, 3], [-1, -2], [0, 1]])
def test_extrema_over_dimensions(dims, keepdim):
    x = normal(3, 4, 2, 5)
    x[1, 2, 0, 3] = nan
    for reduce in (aten.amax.default, aten.amin.default):
        same(reduce, x, dims, keepdim)
        same(reduce, whole(3, 4, 2, 5, high=9), dims, keepdim)


@pytest.mark.parametrize("dims", [[0, 1, 2, 3], [], [1], [0, 2]])
def test_extrema_of_all_and_of_no_neighbours_stay(dims):
    assert own()[aten.amax.default](normal(3, 4, 2, 5), dims) is NotImplemented


def test_extrema_over_neighbours_are_one_kernel():
    report = inferno.compile(lambda x: (x.amax((2, 3)), x.mean((2, 3))), (normal(4, 8, 28, 28),), target="sm_90a").explain()
    assert report.launches == 1, report


@pytest.mark.parametrize("accumulate", [True, False])
def test_put(accumulate):
    index = torch.tensor([[0, -1], [7, 3]])
    same(aten.put.default, normal(3, 4), index, normal(2, 2), accumulate)
    same(aten.put.default, normal(3, 4), index[:0], normal(0, 2), accumulate)


def test_sums_of_booleans():
    x, index, src = whole(4, 5, high=2).bool(), whole(4, 5, high=4), whole(4, 5, high=2).bool()
    same(aten.scatter_add.default, x, 0, index, src)
    same(aten.index_add.default, x, 0, torch.tensor([1, 1, 0]), src[:3])
    same(aten.index_put.default, x, [torch.tensor([1, 1, 0])], src[:3], True)
    for reduce in ("sum", "prod", "amax", "amin"):
        same(aten.scatter_reduce.two, x, 0, index, src, reduce)


@pytest.mark.parametrize("include_self", [True, False])
def test_means_of_integers(include_self):
    x, index, src = whole(4, 5, low=-9, high=9), whole(6, 5, high=3), whole(6, 5, low=-9, high=9)
    same(aten.scatter_reduce.two, x, 0, index, src, "mean", include_self=include_self)
    same(aten.scatter_reduce.two, x, -2, index, src, "mean", include_self=include_self)


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_searches(count, right):
    x = torch.cat([normal(3, 9), torch.full((3, 1), nan)], 1)
    for edges in (normal(count).sort()[0], normal(3, count).sort()[0], torch.cat([normal(3, count).sort()[0], torch.full((3, 2), nan)], 1)):
        same(aten.searchsorted.Tensor, edges, x, right=right, out_int32=count == 7)
        same(aten.searchsorted.Tensor, edges.flip(-1), edges, right=right)
    edges = normal(count)
    same(aten.searchsorted.Tensor, edges, x, right=right, sorter=edges.argsort())
    same(aten.bucketize.Tensor, whole(4, 5), whole(count).sort()[0], right=right)


@pytest.mark.parametrize("keepdim", [True, False])
def test_values_at_places(keepdim):
    x = torch.where(normal(6, 31) > 1, nan, normal(6, 31).round(decimals=1))
    x[2], x[3] = nan, 1.0
    for op, *arguments in ((aten.median.dim, 1), (aten.nanmedian.dim, 1), (aten.kthvalue.default, 7, 1), (aten.kthvalue.default, 3, 0)):
        mine, theirs = own()[op](x, *arguments, keepdim), op(x, *arguments, keepdim)
        assert torch.equal(mine[0].nan_to_num(7), theirs[0].nan_to_num(7)) and mine[1].shape == theirs[1].shape
        place = mine[1] if keepdim else mine[1].unsqueeze(arguments[-1])
        assert torch.equal(x.gather(arguments[-1], place).nan_to_num(7), (mine[0] if keepdim else mine[0].unsqueeze(arguments[-1])).nan_to_num(7))


@pytest.mark.parametrize("keepdim", [True, False])
def test_mode(keepdim):
    for x in (whole(4, 9, high=3), whole(4, 9).float(), whole(3, 1)):
        for dim in (0, -1):
            mine, theirs = own()[aten.mode.default](x, dim, keepdim), torch.mode(x, dim, keepdim)
            same_values = torch.equal(mine[0].nan_to_num(7), theirs[0].nan_to_num(7))
            assert same_values and mine[1].shape == theirs[1].shape and mine[1].dtype == theirs[1].dtype
            at = mine[1] if keepdim else mine[1].unsqueeze(dim)
            assert torch.equal(x.gather(dim, at).nan_to_num(7), (mine[0] if keepdim else mine[0].unsqueeze(dim)).nan_to_num(7))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8], ids=str)
@pytest.mark.parametrize("descending", [True, False])
def test_sorts_of_what_has_no_sign(dtype, descending):
    x = whole(4, 9, high=2 if dtype == torch.bool else 256).to(dtype)
    same(aten.sort.stable, x, stable=True, dim=0, descending=descending)
    same(aten.sort.stable, x, stable=True, dim=-1, descending=descending)
    values, indices = own()[aten.topk.default](x, 3, 1, descending)
    assert torch.equal(values, x.int().topk(3, 1, descending).values.to(dtype)) and torch.equal(x.gather(1, indices), values)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8], ids=str)
def test_extrema_of_what_has_no_sign(dtype):
    x, y = (whole(4, 9, high=2 if dtype == torch.bool else 256).to(dtype) for _ in range(2))
    for op in (aten.maximum.default, aten.minimum.default, aten.clamp_min.Tensor, aten.clamp_max.Tensor):
        same(op, x, y.flip(0))
    if dtype == torch.uint8:
        same(aten.clamp.default, x, 3, 200)


@pytest.mark.parametrize("content", ["normal", "-inf", "nan"])
def test_places_of_maxima(content):
    x = {"normal": normal(2, 3, 9, 7), "-inf": torch.full((2, 3, 9, 7), -inf)}.get(content, normal(2, 3, 9, 7))
    if content == "nan":
        x = torch.where(normal(2, 3, 7, 9).transpose(2, 3) > 1.3, nan, x)
    for args in (([2],), ([3, 2], [2, 1], [1, 1]), ([3], [1], [1], [2]), ([2], [2], [0], [1], True)):
        same(aten.max_pool2d_with_indices.default, x, *args)
    for size in ([1, 1], [2, 3], [4, 5], [3, 7], [9, 1]):
        same(aten.adaptive_max_pool2d.default, x, size)
    volume = torch.stack((x[..., :6], x[..., 1:]), 2)
    for size in ([1, 1, 1], [2, 3, 2], [1, 9, 3]):
        same(aten.adaptive_max_pool3d.default, volume, size)
        same(aten.adaptive_max_pool3d.default, volume[0], size)


def test_gradients_of_maxima_of_equal_windows():
    x = whole(2, 3, 4, 6, 8).float()
    for op, back, image, sizes in (
        (aten.adaptive_max_pool2d.default, aten.adaptive_max_pool2d_backward.default, x[0], ([1, 1], [3, 2], [1, 8], [6, 8])),
        (aten.adaptive_max_pool3d.default, aten.adaptive_max_pool3d_backward.default, x, ([1, 1, 1], [2, 3, 4])),
    ):
        for size in sizes:
            for each in (image, image[0], image.bfloat16()):
                maxima, places = op(each, size)
                same(back, torch.randn_like(maxima), each, places)


def test_means_of_equal_windows():
    x = whole(2, 3, 4, 8, 16).float()
    for op, image, sizes in (
        (aten.adaptive_avg_pool1d.default, x[0, 0], ([1], [4])), (aten._adaptive_avg_pool2d.default, x[0], ([1, 1], [1, 16], [4, 2])),
        (aten._adaptive_avg_pool3d.default, x, ([1, 1, 1], [2, 8, 4])),
    ):
        for size in sizes:
            same(op, image, size)
            same(op, image[0], size)


@pytest.mark.covering
@pytest.mark.parametrize("pool, size", [
    (torch.nn.AdaptiveMaxPool1d(1), (16, 64, 2048)), (torch.nn.AdaptiveMaxPool2d((1, None)), (8, 64, 32, 128)),
    (torch.nn.AdaptiveMaxPool3d(1), (8, 64, 8, 16, 16)), (torch.nn.AdaptiveMaxPool2d(28), (8, 16, 56, 56)),
    (torch.nn.AdaptiveAvgPool3d(8), (8, 16, 16, 16, 16)),
], ids=str)
def test_equal_windows_are_one_kernel_that_reads_once(pool, size):
    (row,) = inferno.compile(pool, (torch.empty(size),), target="sm_90a").explain().rows
    assert row.generator in ("reductions", "elementwise") and row.bytes < 1.3 * 4 * torch.Size(size).numel()


SCALARS = {
    "_softmax": (0, False), "_log_softmax": (-1, False), "cumsum": (0,), "cumprod": (0,), "sort": (), "topk": (1,), "kthvalue": (1,),
    "logsumexp": ([0],), "amax": (), "argmax": (), "argmin": (0,), "flip": ([0],), "mode": (0,),
}


@pytest.mark.parametrize("name", SCALARS)
def test_scalars(name):
    same(getattr(aten, name).default, torch.tensor(2.5), *SCALARS[name])


def test_the_largest_none_of_a_scalar():
    for k in (0, 1):
        same(aten.topk.default, torch.tensor(-2.5), k)


def test_gathers_from_scalars():
    x, zero = torch.tensor(2.5), torch.tensor(0)
    same(aten.gather.default, x, 0, zero)
    same(aten.index_select.default, x, 0, zero)
    same(aten.index_fill.int_Scalar, x, 0, zero, 3.0)
    same(aten.index_add.default, x, 0, zero, x)
    same(aten.scatter.src, x, 0, zero, x * 2)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_targets_up_to_the_first_that_is_none(reduction):
    x, targets = normal(4, 5), torch.tensor([[0, 3, -1, -1, -1], [1, 2, 3, 4, 0], [-1, 0, 0, 0, 0], [4, -1, 2, 2, 2]])
    check(aten.multilabel_margin_loss_forward.default, x, targets, reduction)
    check(aten.multilabel_margin_loss_forward.default, x[0], targets[0], reduction)


def test_one_index_without_dimensions():
    """It is taken for one in a row, where the tensor has a row."""
    x, row, place = torch.tensor(2.5), normal(4), torch.tensor(2)
    for index in (torch.tensor([0]), torch.tensor([0, 0, 0])):
        same(aten.gather.default, x, 0, index)
    same(aten.gather.default, row, 0, place)
    same(aten.take.default, row, place)
    same(aten.scatter.value, row, 0, place, 3.0)
    same(aten.scatter_add.default, row, 0, place, x)
    same(aten.scatter_reduce.two, row, 0, place, x, "amax")
    same(aten.index_put.default, row, [place], x)
    same(aten.index_put.default, normal(4, 3), [place], normal(3), True)
    same(aten.index_put.default, normal(4, 3, 2), [place, None, torch.tensor(-1)], normal(3))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_indices_that_stand_apart(dtype, accumulate):
    """The dimensions of the indices come first in what is put, those between behind them."""
    x, i, j = normal(5, 3, 6, 2) > 0 if dtype == torch.bool else normal(5, 3, 6, 2), torch.tensor([0, 4, 2]), torch.tensor([5, -1, 0])
    for shape in ((3, 3, 2), (3, 1, 2), ()):
        same(aten.index_put.default, x, [i, None, j], torch.randn(shape).to(dtype), accumulate)
    values = normal(4, 3, 3, 2).to(dtype)
    same(aten.index_put.default, x, [torch.arange(4).unsqueeze(1), None, j], values, accumulate)
    same(aten.index_put.default, x[None], [None, i, None, j], normal(3, 1, 3, 2).to(dtype), accumulate)
    same(aten.index_put.default, x, [i, None, torch.tensor(3)], normal(3, 3, 2).to(dtype), accumulate)


@pytest.mark.parametrize("type_", [torch.int64, torch.int32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64])
def test_sums_at_several_indices(dtype, type_):
    """One number stands for each place, also of what lies behind dimensions without indices."""
    x, i, j = (normal(4, 5, 6, 2) * 9).to(dtype), torch.tensor([[0], [-5], [2]], dtype=type_), torch.tensor([5, -1, 0, 5], dtype=type_)
    values = (normal(4, 3, 4, 2) * 9).to(dtype)
    same(aten.index_put.default, x, [None, i, j], values, True)
    same(aten.index_put.default, x, [None, i, j], values[0, :, :1], True)
    same(aten.index_put.default, x, [None, i, j], values[0, 0, 0, 0], True)
    same(aten.index_put.default, x[0], [i, j], values[1], True)
    same(aten.index_put.default, x[0, :, :, 0], [i, j], values[1, :, :, 0], True)
    same(aten.index_put.default, x, [j % 4, i, j], values[1], True)


def test_tokens_of_sequences_go_to_a_cache():
    """Each sequence's to a place of its own, in a cache [batch, heads, rows, columns]."""
    def write(cache, new, batch, places):
        cache[batch, :, places] = new
        return cache.sum(2)

    cache = normal(4, 2, 16, 8)
    assert_right(lambda c, *rest: write(c.clone(), *rest), (cache, normal(4, 2, 8), torch.arange(4), torch.tensor([3, 0, 15, 7])))


def test_the_largest_in_any_order():
    x = torch.randn(5, 8)
    compiled = inferno.compile(lambda x: x.topk(3, sorted=False), (x,), fallback=False)
    values, indices = compiled(x)
    assert torch.equal(values.sort(descending=True)[0], x.topk(3)[0]) and torch.equal(x.gather(1, indices), values)


def test_sums_of_products():
    for dtype in (torch.float32, torch.float16):
        check(aten.addbmm.default, normal(30, 40).to(dtype), normal(3, 30, 5).to(dtype), normal(3, 5, 40).to(dtype), beta=0.5, alpha=2)
    same(aten.addbmm.default, whole(4, 6), whole(3, 4, 5), whole(3, 5, 6), beta=2, alpha=3)


def test_distances_of_pairs():
    for p in (1.0, 2.0, inf, 3.0):
        check(aten._pdist_forward.default, normal(7, 4), p)
    check(aten._pdist_forward.default, normal(2, 1), 2.0)
    check(aten._euclidean_dist.default, normal(3, 30, 4), normal(3, 40, 4))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, inf])
def test_gradients_of_distances(p):
    """Rows that are equal, and differences of nothing, have none."""
    a, b = normal(3, 5, 4), normal(3, 6, 4) + 0.1
    a[:, 0], a[0, 1, 1] = b[:, 0], b[0, 0, 1]
    distance = torch.cdist(a, b, p=p, compute_mode="donot_use_mm_for_euclid_dist")
    check(aten._cdist_backward.default, normal(3, 5, 6), a, b, p, distance)
    x = normal(7, 4)
    x[2] = x[1]
    check(aten._pdist_backward.default, normal(21), x, p, torch.pdist(x, p))


@pytest.mark.parametrize("zero", [torch.tensor([0, 3, -2], dtype=torch.int32), torch.tensor([0.0, 1.3, -2.0])], ids=["integers", "floats"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
def test_channels_rounded_to_steps(zero, dtype):
    args = (normal(4, 3, 5) * 3).to(dtype), torch.tensor([0.1, 0.05, 0.3]), zero, 1, -16, 15
    mine, theirs = own()[aten.fake_quantize_per_channel_affine_cachemask.default](*args), aten.fake_quantize_per_channel_affine_cachemask(*args)
    assert mine[0].dtype == dtype and torch.equal(mine[1], theirs[1])
    torch.testing.assert_close(mine[0], theirs[0], rtol=1e-6, atol=0)


@pytest.mark.parametrize("size, dim", [((4, 3, 5), 0), ((4, 3, 5), 2), ((4, 6), 1), ((4,), 0)])
def test_gradients_of_weights_of_a_length(size, dim):
    v, g = normal(*size), normal(*(n if d == dim else 1 for d, n in enumerate(size))) + 2
    norms = aten._weight_norm_interface(v, g, dim)[1]
    check(aten._weight_norm_interface_backward.default, normal(*size).flip(0) - 0.3, v, g, norms, dim)


@pytest.mark.parametrize("ord", [1, -1, inf, -inf])
def test_norms_of_matrices_by_sums(ord):
    check(aten.linalg_norm.default, normal(4, 6), ord)
    check(aten.linalg_norm.default, normal(4, 6, 3), ord, [2, 0], True)
    assert own()[aten.linalg_norm.default](normal(4, 6), 2) is NotImplemented


@pytest.mark.parametrize("options", [
    (5, None, None, False, None, True), (4, 12, "window", False, None, True), (None, 12, "window", True, None, False), (4, 11, None, False, False, True),
], ids=str)
def test_spectra_of_short_times(options):
    hop, length, window, *rest = options
    weights = normal(length).abs() if window else None
    for x in (normal(3, 80), normal(80)):
        check(aten.stft.default, x, 16, hop, length, weights, *rest)
    whole = torch.complex(normal(2, 60), normal(2, 60).flip(0))
    check(aten.stft.default, whole, 16, hop, length, weights, rest[0], False, True)


def test_what_is_put_at_no_places():
    x, none = normal(3, 4), torch.zeros(0, dtype=torch.int64)
    for index, values in (([none], normal(0, 4)), ([None, none], normal(3, 0)), ([none, torch.tensor([1])], torch.tensor(2.0))):
        assert torch.equal(own()[aten.index_put.default](x, index, values, True), x)
    ours = inferno.compile(lambda x, i: (x.index_add(0, i, x[i]), x.index_copy(0, i, x[:0])), (x, none), target="cpu", fallback=False)
    assert all(torch.equal(found, x) for found in ours(x, none))


def test_extrema_of_nothing():
    for op in (aten.max.default, aten.min.default):
        with pytest.raises(RuntimeError, match="Expected reduction dim to be specified for input.numel"):
            own()[op](torch.empty(0, 3))


def test_rolls_of_scalars():
    same(aten.roll.default, torch.tensor(2.5), [3], [])


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("dim", [0, 1])
def test_sums_and_means_of_rows(dim, reduce, include_self):
    """What a graph's nodes get of their edges; the last node has none."""
    from inferno.capture.decompositions.scattering import _reduce_rows

    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        x, row = normal(4, 5, 6).to(dtype), torch.randint(0, 3, (40,))
        src = normal(*(40 if d == dim else n for d, n in enumerate(x.shape))).to(dtype)
        index = row.reshape([-1 if d == dim else 1 for d in range(3)]).expand(src.shape)
        mine = _reduce_rows(x, dim, index, src, reduce, include_self)
        eager, exact = (y.scatter_reduce(dim, index, z, reduce, include_self=include_self) for y, z in ((x, src), (x.double(), src.double())))
        compared = compare(mine, eager, exact)
        assert compared.right and mine.dtype == dtype, str(compared)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_sums_and_means_of_what_goes_to_a_place(reduce, include_self):
    """Of any indices, and of fewer than there are elements."""
    from inferno.capture.decompositions.scattering import scatter_reduce

    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int64):
        x, index, src = normal(6, 5).mul(4).to(dtype), torch.randint(0, 4, (90, 3)), normal(91, 5).mul(4).to(dtype)
        for dim, where in ((0, index), (-1, index[:6])):
            mine = scatter_reduce(x, dim, where, src, reduce, include_self=include_self)
            wide = torch.float64 if dtype.is_floating_point else dtype
            eager, exact = (y.scatter_reduce(dim, where, z, reduce, include_self=include_self) for y, z in ((x, src), (x.to(wide), src.to(wide))))
            compared = compare(mine, eager, exact)
            assert compared.right and mine.dtype == dtype, str(compared)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8], ids=str)
def test_extremes_of_integers(dtype, reduce, include_self):
    """The least and the most there are, too."""
    from inferno.capture.decompositions.scattered_extremes import extremes

    limits = torch.iinfo(dtype)
    x, index, src = normal(6, 5).abs().mul(9).to(dtype), torch.randint(0, 4, (90, 3)), normal(91, 5).abs().mul(9).to(dtype)
    src[3, 1], src[4, 2], x[1, 1] = limits.min, limits.max, limits.min
    rows = torch.randint(0, 4, (90, 1)).expand(90, 5)
    for dim, where in ((0, index), (1, index[:6]), (0, rows)):
        found = extremes(x, dim, where, src, reduce, include_self)
        assert torch.equal(found, x.scatter_reduce(dim, where, src, reduce, include_self=include_self)) and found.dtype == dtype


@pytest.mark.parametrize("accumulate", [True, False])
def test_places_that_several_indices_tell(accumulate):
    """One number stands for each place; values are broadcast, negative indices count from the end."""
    x, i, j = normal(5, 6, 7), torch.tensor([0, -1, 3]), torch.tensor([2, 4, -6])
    for indices, values in (
        ([i, j], normal(3, 7)), ([i, j], normal(1)), ([i[:, None], j[None]], normal(3, 3, 7)), ([None, i, j], normal(5, 3)), ([i, j, i], normal(3)),
        ([i.int(), j.int()], normal(3, 7)),
    ):
        same(aten.index_put.default, x, indices, values, accumulate)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_extremes_of_what_goes_to_a_place(dtype, reduce, include_self):
    """As whole numbers, in the order of floats: with infinities, zeros of both signs and what is no number; the last rows get nothing."""
    from inferno.capture.decompositions.scattered_extremes import extremes

    x, index, src = normal(6, 5).to(dtype), torch.randint(0, 4, (90, 3)), normal(91, 5).to(dtype)
    src[3, 1], src[4, 2], src[5, 0], src[6], x[1, 1] = torch.nan, -torch.inf, torch.inf, -0.0, 0.0
    for dim, where in ((0, index), (1, index[:6])):
        found = extremes(x, dim, where, src, reduce, include_self)
        torch.testing.assert_close(found, x.scatter_reduce(dim, where, src, reduce, include_self=include_self), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_extremes_of_rows(dtype, reduce, include_self):
    """With one index for each row: what is outside is left out; no table of places is made."""
    from torch.fx.experimental.proxy_tensor import make_fx

    from inferno.capture.decompositions.scattered_extremes import extremes

    x, row, src = normal(4, 6, 5).to(dtype), torch.randint(0, 4, (40,)), normal(4, 40, 5).to(dtype)
    src[0, 3], src[1, 4, 2], src[2, 5, 0], src[3, 6], x[1, 1] = torch.nan, -torch.inf, torch.inf, -0.0, 0.0
    for dim in (0, 1):
        y, z = (x, src) if dim == 1 else (x.transpose(0, 1).contiguous(), src.transpose(0, 1).contiguous())
        where = row.reshape([-1 if d == dim else 1 for d in range(3)]).expand(z.shape)
        found = extremes(y, dim, where, z, reduce, include_self)
        torch.testing.assert_close(found, y.scatter_reduce(dim, where, z, reduce, include_self=include_self), rtol=0, atol=0, equal_nan=True)
    graph = make_fx(lambda x, i, z: extremes(x, 1, i.reshape(1, -1, 1).expand(z.shape), z, reduce, include_self))(x, row, src)
    assert torch.ops.inferno.reduce_rows.default in {n.target for n in graph.graph.nodes}
    far = torch.tensor([0, -1, 6, 1 << 40])
    left = torch.ops.inferno.reduce_rows(torch.zeros(6, 2, dtype=torch.int32), far, torch.ones(4, 2, dtype=torch.int32), "amax")
    assert left.sum() == 2 and left[0].sum() == 2


def test_slices_at_places_of_one_dimension():
    from inferno.capture.decompositions.scattering import _one_row_of_places, put_slices

    x, at = normal(3, 5, 4), torch.tensor([2, 0])
    for dim in range(3):
        source = normal(*(2 if d == dim else n for d, n in enumerate(x.shape)))
        assert torch.equal(put_slices(x, dim, at, source), x.index_copy(dim, at, source))
        assert torch.equal(put_slices(x, dim, at[:1].expand(2), source, True), x.index_add(dim, at[:1].expand(2), source))
        assert _one_row_of_places(x, [None] * dim + [at]) == dim
    for indices in ([at, at], [torch.tensor(1)], [torch.tensor([True, False, True])], [at.reshape(1, 2)]):
        assert _one_row_of_places(x, indices) is None


@pytest.mark.parametrize("dim, index, rows", [
    (0, lambda i: i[:, None].expand(-1, 8), True), (1, lambda i: i[None, :, None].expand(3, -1, 8), True),
    (0, lambda i: i[:, None].expand(-1, 8).clone(), False), (0, lambda i: i[:, None].expand(-1, 4), False),
])
def test_one_index_for_a_row(dim, index, rows):
    """As graphs have it: rows are added, and not their elements one by one."""
    from inferno.capture.decompositions.scattering import add_rows, adds_rows

    x = normal(*[3] * dim, 20, 8)
    index = index(torch.randint(0, 20, (90,)))
    y = normal(*index.shape)
    assert adds_rows(x, dim, index) == rows
    if rows:
        torch.testing.assert_close(add_rows(x, dim, index, y), x.scatter_add(dim, index, y))


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64], ids=str)
def test_quotients_of_scalars_by_numbers(dtype):
    """Both tensors have no dimensions then, so that the type is not the first one's by itself."""
    x = torch.tensor(7, dtype=dtype)
    same(aten.div.Scalar_mode, x, -2.5, rounding_mode="floor")
    same(aten.fmod.Scalar, x, -2.5)


def test_several_slices_have_no_places_outside():
    """Where one is written twice: torch, which may be left to write them, would end the process."""
    from inferno.capture.decompositions.scattering import put_slices

    x, source, places = torch.randn(5, 6), torch.randn(5, 3), torch.tensor([1, 5, 1])
    found = put_slices(x, 1, places, source)
    assert torch.equal(found[:, [0, 2, 3, 4]], x[:, [0, 2, 3, 4]]) and torch.equal(found[:, 5], source[:, 1])
    assert all(any(torch.equal(a, b) for b in (source[n, 0], source[n, 2])) for n, a in enumerate(found[:, 1]))


@pytest.mark.parametrize("name", ["median.dim", "nanmedian.dim", "mode.default", "kthvalue.default"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_what_is_picked_of_sorted_rows_is_dense(name, dim, keepdim):
    packet, _, overload = name.partition(".")
    operation, k = getattr(getattr(aten, packet), overload), (2,) if packet == "kthvalue" else ()
    x = torch.randint(0, 9, (5, 4))
    for found in own()[operation](x, *k, dim, keepdim):
        assert found.is_contiguous()


def test_operations_on_lists():
    given = {"Tensor": torch.tensor(0.5), "Scalar": 1.5, "Scalar[]": [0.5, 2, 3]}
    for op in lists.TABLE:
        sizes = [(3, 4), (1,), (2,) if "_foreach_max." in str(op) else (0, 2)]  # nothing has no largest
        declared = str(op._schema).split("(", 1)[1].split(")", 1)[0].split(", ")
        kinds = [a.split()[0] for a in declared if " " in a and "=" not in a]
        args = [[torch.rand(s) for s in sizes] if k == "Tensor[]" else given[k] for k in kinds]
        for mine, theirs in zip(own()[op](*args), op(*args), strict=True):
            torch.testing.assert_close(mine, theirs, msg=str(op))
    assert own()[aten._foreach_add.List]([torch.ones(2)], [torch.ones(2)], alpha=3)[0].tolist() == [4, 4]


def test_a_step_of_an_optimiser_is_whole():
    def step(values, gradients, means):
        means = torch._foreach_lerp(means, gradients, 0.1)
        return torch._foreach_addcdiv(values, means, torch._foreach_sqrt(torch._foreach_mul(means, means)), [-0.5, -1.0, 2.0]), torch._foreach_norm(gradients)

    assert_right(step, tuple([normal(3, 4), normal(5), normal(1)] for _ in range(3)))


@pytest.mark.parametrize("length", [0, 1, 2, 9, 512, 1000])
@pytest.mark.parametrize("operator, numbers", [
    (aten.hamming_window.default, ()), (aten.hamming_window.periodic, (False,)), (aten.hamming_window.periodic_alpha, (False, 0.6)),
    (aten.hamming_window.periodic_alpha_beta, (True, 0.6, 0.3)), (aten.blackman_window.default, ()), (aten.blackman_window.periodic, (False,)),
    (aten.bartlett_window.default, ()), (aten.bartlett_window.periodic, (False,)), (aten.kaiser_window.default, ()), (aten.kaiser_window.beta, (False, 14.0)),
], ids=str)
def test_window_functions(operator, numbers, length):
    from inferno.capture.decompositions.window_functions import TABLE

    for dtype in (torch.float32, torch.bfloat16):
        found = TABLE[operator](length, *numbers, dtype=dtype)
        compared = compare(found, operator(length, *numbers, dtype=dtype), operator(length, *numbers, dtype=torch.float64))
        assert compared.right and found.dtype == dtype, str(compared)


def test_frequencies_of_transforms():
    def frequencies(x):
        n = x.shape[0]
        return torch.fft.fftfreq(n, 0.3) + x, torch.fft.rfftfreq(n), torch.fft.fftfreq(n, 1 / n, dtype=torch.float64), torch.fft.fftfreq(0)

    compiled = torch.compile(frequencies, backend="inferno")
    for n in (5, 8, 13):
        for found, expected in zip(compiled(torch.ones(n)), frequencies(torch.ones(n)), strict=True):
            assert torch.equal(found, expected) and found.dtype == expected.dtype
    assert not inferno.explain(compiled).fallbacks
