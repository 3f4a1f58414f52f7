"""``dynamic_shapes=``: one compiled module for every size, on the CPU."""

import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch.export import Dim

import inferno
from checks import check
from inferno.errors import InputError

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
from dynamic_cases import CASES


def compiled(name):
    model, inputs, dynamic_shapes, sizes = CASES[name]()
    return inferno.compile(model, inputs(*sizes[0]), dynamic_shapes=dynamic_shapes, target="cpu", fallback=False), model, inputs, sizes


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", CASES)
def test_right_for_every_size(name):
    torch.manual_seed(0)
    made, model, inputs, sizes = compiled(name)
    assert "?x" in made.ir("fused")
    for each in [*sizes, sizes[0]]:
        found = check(made, model, inputs(*each))
        assert found.right, f"{each}: {found}"


def test_a_size_out_of_range():
    made, *_ = compiled("linear")
    with pytest.raises(InputError, match=r"argument x, dimension 0: expected a size from 1 to 4096, got 4097"):
        made(torch.randn(4097, 1, 16))
    with pytest.raises(InputError, match=r"argument x, dimension 1: expected a size from 1 to 4096, got 0"):
        made(torch.randn(1, 0, 16))
    with pytest.raises(InputError, match=r"argument x, dimension 2: expected 16, got 15"):
        made(torch.randn(3, 5, 15))
    with pytest.raises(InputError, match=r"argument x: expected 3 dimensions"):
        made(torch.randn(5, 16))
    with pytest.raises(InputError, match=r"argument x: expected a tensor"):
        made("x")


def test_sizes_that_do_not_fit_each_other():
    made, *_ = compiled("elementwise")
    with pytest.raises(InputError, match=r"argument y, dimension 0: expected 4, because of the size of argument x, dimension 0, got 5"):
        made(torch.randn(4, 7), torch.randn(5, 7))
    made, *_ = compiled("multiples")
    with pytest.raises(InputError, match=r"argument x, dimension 0: expected 2\*s0, which 5 is for no s0"):
        made(torch.randn(5, 3))


def test_what_was_assumed_when_capturing_is_checked():
    model = lambda x, y: x[: y.shape[0]] + y  # noqa: E731
    made = inferno.compile(
        model, (torch.randn(7, 3), torch.randn(5, 3)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}), target="cpu", fallback=False,
    )
    x, y = torch.randn(90, 3), torch.randn(90, 3)
    assert torch.equal(made(x, y[:40]), model(x, y[:40]))
    with pytest.raises(InputError, match="must hold, where"):
        made(x[:30], y)


@pytest.mark.parametrize("part", [lambda x: x[..., 0], lambda x: x[:, 1:, 1], lambda x: x[1, ::2]], ids=["one of two", "without the first", "every other"])
def test_sums_of_parts_are_exact(part):
    """Read where they lie, they are added as all are."""
    torch.manual_seed(0)
    model = lambda x: part(x).sum(-1)  # noqa: E731
    made = inferno.compile(model, (torch.rand(4, 4000, 2),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},), target="cpu", fallback=False)
    for n in (100, 100000):
        x = torch.rand(4, n, 2)
        found = check(made, model, (x,))
        assert found.right, f"{n}: {found}"


def test_inputs_of_any_strides():
    made, model, *_ = compiled("layer norm")
    x = torch.randn(9, 4, 48).transpose(0, 1)
    torch.testing.assert_close(made(x), model(x))


def test_a_buffer_written_in_place():
    class Cache(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            self.total += x.sum(0)
            return x * self.total

    ours, theirs = Cache(), Cache()
    made = inferno.compile(ours, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=1, max=99)},), target="cpu", fallback=False)
    for n in (3, 1, 50):
        x = torch.randn(n, 4)
        torch.testing.assert_close(made(x), theirs(x))
        torch.testing.assert_close(ours.total, theirs.total)


@pytest.mark.thorough
def test_memory_is_that_of_the_sizes():
    """Workspace and results are computed for each size: the plan holds expressions, and buffers share memory."""
    made, *_ = compiled("attention")
    plan = made.program.launch_plan()
    at = [_bytes(plan, b, s) for b, s in ((1, 8), (2, 8), (4, 64))]
    assert at[0] < at[1] < at[2]
    separate = sum(-(-v // 256) * 256 for v in _temporaries(plan, 4, 64))
    assert at[2] < separate


@pytest.mark.thorough
def test_the_plan_is_plain_data():
    import json

    from inferno.runtime.plan.data import plan_from_dict

    for name in ("linear", "attention", "multiples"):
        plan = compiled(name)[0].program.launch_plan()
        assert plan.symbols
        assert plan_from_dict(json.loads(json.dumps(plan.as_dict()))) == plan


def _bytes(plan, batch: int, length: int) -> int:
    from inferno.runtime.plan.plan import at_sizes

    return at_sizes(plan, {"s0": batch, "s1": length}).workspace_bytes


def _temporaries(plan, batch: int, length: int) -> list[int]:
    from inferno.runtime.plan.plan import Buffer, Launch, at_sizes

    made = at_sizes(plan, {"s0": batch, "s1": length})
    written = {}
    for step in made.steps:
        if isinstance(step, Launch) and isinstance(step.parameters[-1], Buffer) and step.parameters[-1].place == "workspace":
            written[step.kernel, step.parameters[-1].index] = 4 * torch.Size(step.parameters[-1].shape).numel()
    return list(written.values())


N = Dim("n", min=2, max=8)


@pytest.mark.parametrize("model, dims, promised", [
    (lambda x: x.view(-1, 4, 3).sum(1), (4 * N,), [(8,), (12,), (32,)]),
    (lambda x: x[1::2] - x[:-1:2], (2 * N + 1,), [(5,), (7,), (17,)]),
    (lambda x, y: y.sum(0) - x.sum(0), (N - 1, 2 * N), [(1, 4), (2, 6), (7, 16)]),
])
def test_sizes_that_follow_from_another(model, dims, promised):
    given = lambda sizes: tuple(torch.arange(3.0 * n).reshape(n, 3) for n in sizes)  # noqa: E731
    made = inferno.compile(model, given(promised[1]), dynamic_shapes=tuple({0: d} for d in dims), target="cpu", fallback=False)
    for sizes in promised:
        assert torch.equal(made(*given(sizes)), model(*given(sizes)))
    low, high, between = promised[0], promised[-1], (promised[1][0] + 1, *promised[1][1:])
    for sizes in (tuple(n - 1 for n in low), tuple(n + 1 for n in high), between):
        with pytest.raises(InputError, match="argument [xy], dimension 0: expected"):
            made(*given(sizes))


@pytest.mark.parametrize("model", [
    lambda x: torch.fft.rfft2(x).abs() + 1, lambda x: torch.nn.functional.interpolate(x, scale_factor=2, mode="bicubic"),
], ids=["an operation in eager", "sizes by floats"])
def test_what_does_not_compile_for_all_sizes_is_compiled_for_each(model):
    x = torch.randn(1, 2, 8, 6)
    made = inferno.compile(model, (x,), dynamic_shapes=({2: Dim("h", min=4, max=40)},), target="cpu")
    for height in (8, 5, 7):
        x = torch.randn(1, 2, height, 6)
        assert check(made, model, (x,)).right


@pytest.mark.covering(most=1, also=lambda model, least: least == 2)
@pytest.mark.parametrize("model,least", [
    (lambda x: x[1:] - x[:-1], 1), (lambda x: x[-1] * 2, 1), (lambda x: x[1] * 2, 2), (lambda x: (x[1:] * 2).sum(), 1),
    (lambda x: torch.cat([x[1:] * 2, x]), 1), (lambda x: torch.nn.functional.pad(x, (0, 0, -1, 0)) + 1, 1),
    (lambda x: x[:1] * 2, 1), (lambda x: x[-2:] + 1, 2), (lambda x: x.slice_scatter(torch.ones(1, 6), 0, 0, 1), 1), (lambda x: x.topk(2, 0).values, 2),
    (lambda x: x.max(0).values, 1), (lambda x: x.argmax(), 1),
], ids=[
    "differences", "last", "second", "sum", "joined", "cut", "first row", "last rows", "first row written", "largest two", "largest", "place",
])
def test_sizes_that_torch_takes_for_more_than_one(model, least):
    """Right, or an error: torch traces as if no size were 0 or 1."""
    compiled = inferno.compile(model, (torch.randn(5, 6),), dynamic_shapes=({0: Dim("a", min=0, max=50)},), target="cpu")
    for n in (7, 1, 0):
        x = torch.randn(n, 6)
        if n < least:
            with pytest.raises(inferno.InputError, match=r">= \d+ must hold, where s0 is \d"):
                compiled(x)
        else:
            torch.testing.assert_close(compiled(x), model(x))


def numbers_of_sizes(x):
    less = torch.full((2,), x.shape[0] - 3)
    return {"clamp": less.clamp(min=0), "comparison": less > -1, "quotient": less // 2, "product": torch.arange(5) * (x.shape[0] - 3) // 2}


def test_numbers_below_0():
    """A number that is made of sizes is no size: what is known of these does not hold of it."""
    fast = inferno.compile(numbers_of_sizes, (torch.ones(5, 2),), dynamic_shapes=({0: Dim("a")},), target="cpu", fallback=False)
    for n in (5, 0, 1, 2, 3, 9):
        ours, theirs = fast(torch.ones(n, 2)), numbers_of_sizes(torch.ones(n, 2))
        assert [name for name in theirs if not torch.equal(ours[name], theirs[name])] == []


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("shifts,dims", [(2, 0), (-1, 1), (9, 0), ((1, -3), (0, 1)), (3, None)], ids=str)
def test_rolls_of_any_length(shifts, dims):
    """The import rolled by more than the length as if it ended there, beyond the ends."""
    shapes = ({0: Dim("a"), 1: Dim("b")},)
    fast = inferno.compile(lambda x: x.roll(shifts, dims), (torch.randn(5, 7),), dynamic_shapes=shapes, target="cpu", fallback=False)
    for sizes in ((5, 7), (1, 1), (2, 2), (1, 5), (0, 3), (3, 0), (10, 20)):
        x = torch.randn(*sizes)
        assert torch.equal(fast(x), x.roll(shifts, dims))


def test_pieces_take_every_size():
    """A piece beside what runs in eager is for the sizes that the user told, not for those that torch takes them for."""
    def model(x):
        return torch.nextafter(x * 2, x + 1) * 2 + x.sum(0)

    made = inferno.compile(model, (torch.randn(5, 6).double(),), dynamic_shapes=({0: Dim("a")},), target="cpu")
    assert made.fallbacks and made.programs and not any("inferno.range = [2" in p.ir("fused") for p in made.programs)
    for n in (5, 1, 0, 9):
        x = torch.randn(n, 6).double()
        torch.testing.assert_close(made(x), model(x))


@pytest.mark.thorough
def test_variances_of_any_number():
    """Of none it is NaN, as of one."""
    def variances(x):
        return x.var(), x.var(0), x.std(1), x.var(0, correction=0), torch.var_mean(x, 1)

    fast = inferno.compile(variances, (torch.randn(4, 5),), dynamic_shapes=({0: Dim("a"), 1: Dim("b")},), target="cpu", fallback=False)
    for sizes in ((4, 5), (0, 3), (3, 0), (1, 1), (1, 5), (30, 40)):
        x = torch.randn(*sizes)
        with warnings.catch_warnings():  # eager warns of what it divides by
            warnings.simplefilter("ignore")
            found = check(fast, variances, (x,))
        assert found.right, (sizes, str(found))


def _column(count):
    return torch.arange(3 * count).reshape(count, 3) % 6


def writes(x, i):
    return {
        "add rows": x.index_add(0, i[:, 0], torch.ones(i.shape[0], 4)),
        "add columns": x.index_add(1, i[:, 0] % 4, torch.ones(6, i.shape[0])),
        "fill": x.index_fill(0, i[:, 0], 3.0),
        "pairs": x.index_put((i[:, 0], i[:, 1] % 4), torch.ones(i.shape[0]), accumulate=True),
        "columns": torch.ops.aten.index_put(x, [None, i[:, 0] % 4], torch.ones(1), False),
        "elements": x.scatter_add(0, i, torch.ones(i.shape)),
        "largest": x.scatter_reduce(0, i, torch.ones(i.shape), "amax"),
        "count": torch.zeros(6, dtype=torch.int64).index_add(0, i[:, 1], torch.ones_like(i[:, 1])),
    }


def test_places_of_any_number():
    """Of none, too: the import read one behind the end, which was anything, or no memory of the process."""
    x = torch.randn(6, 4)
    fast = inferno.compile(writes, (x, _column(5)), dynamic_shapes=(None, {0: Dim("places")}), target="cpu", fallback=False)
    assert "maxsi" not in fast.ir("linalg")
    for count in (5, 0, 1, 40):
        ours, theirs = fast(x, _column(count)), writes(x, _column(count))
        assert [name for name in theirs if not torch.equal(ours[name], theirs[name])] == []


def test_bytes_of_sizes_that_vary():
    """Two numbers of 4 bits in each, as packed weights have: their sizes are no bytes."""
    torch._dynamo.reset()
    unpacked = lambda packed, x: torch.stack([packed & 15, packed >> 4], -1).flatten(1).to(x.dtype) * x[:, None]  # noqa: E731
    fast = torch.compile(unpacked, backend="inferno", dynamic=True, options={"fallback": False})
    for rows in (6, 11, 9):
        packed, x = torch.randint(0, 256, (rows, 5), dtype=torch.uint8), torch.randn(rows)
        assert torch.equal(fast(packed, x), unpacked(packed, x))
    assert not any("one size" in note for note in inferno.explain(fast).notes)


def test_rotations_as_complex_numbers_of_sizes_that_vary():
    torch._dynamo.reset()

    def rotated(q, frequencies):
        turned = torch.polar(torch.ones_like(frequencies), frequencies)
        numbers = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
        return torch.view_as_real(numbers * turned[None, :, None]).flatten(3).type_as(q)

    fast = torch.compile(rotated, backend="inferno", dynamic=True, options={"fallback": False})
    for tokens in (6, 11, 9):
        q, frequencies = torch.randn(2, tokens, 3, 8, requires_grad=True), torch.randn(tokens, 4)
        wide = q.detach().double().requires_grad_()
        (found, expected) = fast(q, frequencies), rotated(wide, frequencies.double())
        found.pow(3).sum().backward()
        expected.pow(3).sum().backward()
        torch.testing.assert_close(found.double(), expected.double(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(q.grad.double(), wide.grad, rtol=1e-4, atol=1e-4)
    assert not any("one size" in note for note in inferno.explain(fast).notes)
