"""Inputs that are parts of larger tensors are read where they lie, or copied where a call's lies differently."""

import pytest
import torch
from checks import assert_right

import inferno
from inferno.capture.input_parts import find_part, whole_of
from inferno.errors import InputError
from inferno.runtime.region.graphs import graphs_of

F = torch.nn.functional


def big(*shape):
    return torch.randn(*shape)


CASES = {
    "columns": (lambda x: torch.relu(x) + 1, lambda: (big(33, 64)[:, 16:48],)),
    "rows and columns": (lambda x, w: F.linear(x, w), lambda: (big(33, 64)[3:, 32:], big(40, 64)[::2, :32])),
    "transposed": (lambda x: x * 2, lambda: (big(33, 64)[:, ::2].t(),)),
    "every fourth": (lambda x: x.cumsum(0), lambda: (big(256)[::4],)),
    "batches": (lambda x: x.sum(1), lambda: (big(4, 12, 48)[:, 4:8, 16:48],)),
    "one row of each": (lambda x: x * 2, lambda: (big(4, 8, 48)[:, 4:5, 16:48],)),
    "without a dimension": (lambda x: x * 2, lambda: (big(4, 8, 48)[:, 4, 16:48],)),
    "permuted": (lambda x: x.softmax(-1), lambda: (big(4, 12, 48)[:, 4:8, 16:48].permute(2, 0, 1),)),
    "heads": (F.scaled_dot_product_attention, lambda: tuple(big(2, 9, 3, 48)[..., 16 * i:16 * i + 16].transpose(1, 2) for i in range(3))),
    "integers": (lambda x: x.argmax(-1), lambda: (torch.randint(0, 99, (7, 64))[:, 32:],)),
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", CASES)
def test_right(name):
    """As the example lies, dense, in a place that is not aligned, and as part of another tensor."""
    model, make = CASES[name]
    args = make()
    compiled = assert_right(model, args)
    parts = [a.part for a in compiled.program.signature.arguments]
    assert all(p is not None and p.shape == a.shape and p.strides == a.stride() for p, a in zip(parts, args))
    for again in (tuple(a.clone() for a in args), tuple(_inside_of_more(a) for a in args), make()):
        torch.testing.assert_close(compiled(*again), model(*again))


def _inside_of_more(x):
    larger = torch.zeros([n + 5 for n in x.shape], dtype=x.dtype)
    part = larger[tuple(slice(3, 3 + n) for n in x.shape)]
    part.copy_(x)
    return part


def test_nothing_is_copied():
    x = big(64, 128)
    compiled = inferno.compile(torch.relu, (x[:, 64:],))
    argument = compiled.program.signature.arguments[0]
    assert argument.part.whole(x[:, 64:], argument.shape).data_ptr() == x.data_ptr()
    assert argument.part.whole(x[5:, 64:], argument.shape) is not None and compiled(x[:, 64:]).stride() == (64, 1)


@pytest.mark.parametrize("model", [lambda x, y: y.add_(x), lambda x, y: y[:, :4] * x[:, :4]], ids=["beside what is written", "beside another"])
def test_parts_of_one_tensor(model):
    whole, expected = big(16, 64), None
    expected = whole.clone()
    compiled = inferno.compile(model, (whole[:, :32], whole[:, 32:]))
    torch.testing.assert_close(compiled(whole[:, :32], whole[:, 32:]), model(expected[:, :32], expected[:, 32:]))
    torch.testing.assert_close(whole, expected)


@pytest.mark.parametrize("make", [
    lambda: big(1, 8).expand(8, 8), lambda: big(9).unfold(0, 4, 1), lambda: big(8, 512)[:, :8],
], ids=["expanded", "overlapping", "little"])
def test_copied(make):
    x = make()
    compiled = assert_right(lambda x: x * 2, (x,))
    assert compiled.program.signature.arguments[0].part is None


def test_where_parts_begin_is_part_of_the_cache_key(cache_folder):
    x = big(16, 64)
    for _ in range(2):
        for part in (x[:, :32], x[:, 32:], x[:, 16:48]):
            torch.testing.assert_close(inferno.compile(torch.relu, (part,))(part), torch.relu(part))


def test_packages(tmp_path):
    x = big(16, 64)
    compiled = inferno.compile(lambda x: x + 1, (x[:, 32:],), target="sm_90a")
    compiled.save(tmp_path / "model.inferno")
    argument, = inferno.load(tmp_path / "model.inferno", device="cpu").program.signature.arguments
    assert argument.part == compiled.program.signature.arguments[0].part != None and argument.shape == (16, 64)  # noqa: E711


@pytest.mark.parametrize("given, message", [
    (lambda x: x[:, 31:], r"argument x: expected \(16, 32\) torch.float32 on cpu, got \(16, 33\) torch.float32 on cpu; pass a tensor like"),
    (lambda x: x[:, 32:].double(), r"argument x: expected \(16, 32\) torch.float32 on cpu, got \(16, 32\) torch.float64 on cpu; pass a tensor like"),
    (lambda x: 3, r"argument x: expected a tensor of \(16, 32\) torch.float32, got int 3"),
])
def test_what_does_not_fit(given, message):
    def model(x):
        return x + 1

    x = big(16, 64)
    with pytest.raises(InputError, match=message):
        inferno.compile(model, (x[:, 32:],))(given(x))


def test_transforms():
    """What has no memory of its own runs the model."""
    x = big(16, 64)
    compiled = inferno.compile(lambda x: x * x, (x[:, 32:],))
    torch.testing.assert_close(torch.vmap(compiled, 2, 2)(torch.stack([x[:, 32:]] * 3, 2)), torch.stack([x[:, 32:] ** 2] * 3, 2))
    torch.testing.assert_close(torch.func.jvp(compiled, (x[:, 32:],), (x[:, :32],))[1], 2 * x[:, 32:] * x[:, :32])


def gated(x, w):
    a, b = (x @ w).chunk(2, -1)
    return torch.sigmoid(a) * b


def test_a_backward_reads_what_the_forward_kept_where_it_lies():
    """Halves of one product, which autograd keeps as parts of it, are not copied."""
    x, w = (big(*s).requires_grad_() for s in ((24, 16), (16, 64)))
    compiled = torch.compile(gated, backend="inferno", fullgraph=True, options={"fallback": False})
    ours = torch.autograd.grad(compiled(x, w).square().sum(), (x, w))
    exact = torch.autograd.grad(gated(x.double(), w.double()).square().sum(), (x, w))
    for o, e in zip(ours, exact):
        torch.testing.assert_close(o.double(), e.double(), rtol=1e-5, atol=1e-5 * e.abs().max().item())
    backward = next(region for kind, region in graphs_of(compiled)[-1].regions if kind == "backward")
    assert "= segment_0(" in backward.text and backward.text.count("whole") == 1 and ".contiguous()" not in backward.text


def test_a_part_that_lies_otherwise_is_copied():
    part, shape = find_part(big(8, 64)[:, 16:32])
    take, at = whole_of(part, shape), (slice(None), slice(16, 32))
    for given in (big(8, 64)[:, 16:32], big(8, 16), big(8, 66)[:, 3:19], big(16, 8).t()):
        whole = take(given)
        assert whole.shape == (8, 64) and whole.is_contiguous() and torch.equal(whole[at], given)
    torch.testing.assert_close(take(torch.nn.Parameter(big(8, 16)))[at].isfinite().all(), torch.tensor(True))
