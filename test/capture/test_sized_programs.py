"""Parts, windows and places of sizes that vary: one program for every size, and the right numbers at each, under torch.compile and inferno.compile."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from checks import assert_close_to_float64
from torch.export import Dim

import inferno


def parts_of_a_length(x, n):
    first, second, third = x.split(n, 1)
    return torch.cat((third, first), 1), second.exp()


def parts_of_another(x, y):
    n = y.shape[0]
    first, second = x.split([n, 2 * n], -2)
    return first * y[:, None], second.sum(1)


def transposed_parts(x):
    first, _, third = x.chunk(3, 1)
    return first[:, :2].exp() - third[:, :1]


def whole_chunks(x):
    """Padded to whole chunks, where that is not known to be nothing, and cut again."""
    pad = (4 - x.shape[1] % 4) % 4
    y = F.pad(x, (0, 0, 0, pad)).reshape(x.shape[0], -1, 4, x.shape[2])
    y = (y - y.mean(2, keepdim=True)).reshape(x.shape[0], -1, x.shape[2])
    return (y[:, :x.shape[1]] if pad > 0 else y) * x


class Blocks(torch.nn.Module):
    """Blocks of a length that an attribute says, which varies for torch, each with those beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.length = 5

    def forward(self, x):
        if x.shape[1] % self.length:
            x = F.pad(x, (0, 0, 0, -x.shape[1] % self.length))
        y = x.reshape(x.shape[0], x.shape[1] // self.length, self.length, x.shape[2])
        beside = F.pad(y, (0, 0, 0, 0, 1, 1))
        y = torch.cat([beside[:, i:i + y.shape[1]] for i in range(3)], 2)
        return (y * y.mean(2, keepdim=True)).reshape(x.shape[0], -1, x.shape[2])


class RelativePlaces(torch.nn.Module):
    """A table of the distances from -4 to 4, padded where a sequence is longer, and cut where it is shorter."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(9, 6))

    def forward(self, x):
        n = x.shape[1]
        pad, begin = max(n - 5, 0), max(5 - n, 0)
        table = F.pad(self.table, (0, 0, pad, pad))[begin:begin + 2 * n - 1]
        scores = F.pad(x @ table.t(), (0, 1)).flatten(1)
        return F.pad(scores, (0, n - 1)).view(x.shape[0], n + 1, 2 * n - 1)[:, :n, n - 1:]


def quotient_of_a_size(x):
    return x * torch.div(x.shape[1], 4, rounding_mode="trunc")


def heads_of_rows(x, batch, heads):
    """How many rows there are is only known to be what the others come to."""
    return torch.softmax(x.view(batch, heads, x.shape[1]).transpose(0, 1).reshape(heads, -1), -1)


def pairs_of_rows(x, y):
    """That there are two rows for each of the other's is only known of what is left over."""
    return x.view(y.shape[0], 2, -1).sum(1) * y


def groups_of_rows(x, y):
    """How many rows there are for each of the other's only the call tells."""
    return torch.softmax(x.view(y.shape[0], -1, 3) @ y[:, None].expand(-1, 3, -1), 1).sum(1) + x.reshape(-1, y.shape[0], 3).mean(0).exp()


def sequences(n):
    return (torch.randn(2, n, 6),)


PROGRAMS: dict[str, tuple[Callable, Callable, tuple[int, ...]]] = {
    "parts of a length": (parts_of_a_length, lambda n: (torch.randn(2, 3 * n, 4), n), (4, 5, 9)),
    "parts of another's length": (parts_of_another, lambda n: (torch.randn(2, 3 * n, 6), torch.randn(n)), (4, 5, 9)),
    "a third": (transposed_parts, sequences, (12, 13, 30)),
    "chunks": (whole_chunks, sequences, (12, 20, 36)),
    "chunks that are padded": (whole_chunks, sequences, (13, 35, 6)),
    "blocks": (Blocks(), sequences, (20, 35, 45)),
    "blocks that are padded": (Blocks(), sequences, (12, 36, 7)),
    "relative places": (RelativePlaces(), sequences, (3, 4, 7, 11)),
    "heads of rows": (heads_of_rows, lambda n: (torch.randn(n * (n + 1), 6), n, n + 1), (4, 7, 9)),
    "pairs of rows": (pairs_of_rows, lambda n: (torch.randn(2 * n, 3), torch.randn(n, 3)), (4, 7, 9)),
    "groups of rows": (groups_of_rows, lambda n: (torch.randn(n * (n // 2), 3), torch.randn(n, 3)), (6, 4, 9)),
    "a quotient of a size": (quotient_of_a_size, sequences, (12, 13, 35)),
}


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_for_every_size(name):
    torch._dynamo.reset()
    model, inputs, sizes = PROGRAMS[name]
    compiled = torch.compile(model, backend="inferno", dynamic=True, options={"fallback": False})
    inferno.stats(reset=True)
    for n in sizes:
        args = inputs(n)
        with torch.no_grad():
            assert_close_to_float64(compiled(*args), model, args)
    assert inferno.stats().segments == 1


def test_what_is_assumed_of_a_size_is_checked():
    model = lambda x: x.view(x.shape[0], -1, 4, x.shape[2]).sum(2)  # noqa: E731
    compiled = inferno.compile(model, sequences(12), dynamic_shapes=({1: Dim.AUTO},), fallback=False)
    for n in (8, 20, 36):
        x = torch.randn(2, n, 6)
        assert_close_to_float64(compiled(x), model, (x,))
    with pytest.raises(inferno.InputError):
        compiled(torch.randn(2, 13, 6))


def masked_blocks(x, mask):
    y = F.pad(x, (0, 0, 0, -x.shape[1] % 5)).unflatten(1, (-1, 5))
    return (torch.softmax(y @ y.transpose(2, 3) + mask, -1) @ y).flatten(1, 2)[:, :x.shape[1]] + x


def test_a_size_that_others_tell():
    """The mask has as many blocks as the sequence."""
    args = lambda n: (torch.randn(2, n, 16), torch.randn(2, -(-n // 5), 5, 5))  # noqa: E731
    compiled = inferno.compile(masked_blocks, args(12), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},) * 2, fallback=False)
    for n in (12, 11, 33):
        given = args(n)
        assert_close_to_float64(compiled(*given), masked_blocks, given)
    with pytest.raises(inferno.InputError, match="argument mask, dimension 1: expected 3, because of the size of argument x"):
        compiled(args(12)[0], args(16)[1])
    inferno.compile(masked_blocks, args(12), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},) * 2, fallback=False, target="sm_90a")


def test_sizes_that_a_quotient_and_what_it_leaves_tell():
    args = lambda n, m: (torch.randn(n, 3), torch.randn(m, 3))  # noqa: E731
    compiled = inferno.compile(pairs_of_rows, args(8, 4), dynamic_shapes=({0: Dim.AUTO},) * 2, fallback=False)
    for given in (args(8, 4), args(6, 3), args(40, 20)):
        assert_close_to_float64(compiled(*given), pairs_of_rows, given)
    with pytest.raises(inferno.InputError, match="argument x, dimension 0: expected 6, because of the size of argument y, dimension 0, got 12"):
        compiled(*args(12, 3))


@pytest.mark.parametrize("ends", [(0, 1), (3.5, -1)])
def test_evenly_spaced_numbers_of_any_count(ends):
    model = lambda x: x + torch.linspace(*ends, x.shape[0])  # noqa: E731
    compiled = inferno.compile(model, (torch.randn(5),), dynamic_shapes=({0: Dim("n", min=0)},), fallback=False)
    for n in (5, 1, 2, 3, 8, 0):
        assert_close_to_float64(compiled(x := torch.randn(n)), model, (x,))


AVERAGES = {
    "overlapping": ({"kernel_size": 3, "stride": 2, "padding": 1}, 2), "of what is inside": (
        {"kernel_size": (3, 5), "stride": (3, 2), "padding": (1, 2), "count_include_pad": False}, 2,
    ), "by a number": ({"kernel_size": 2, "divisor_override": 3}, 2), "of cubes": ({"kernel_size": 2, "padding": 1}, 3), "of rows": (
        {"kernel_size": 4, "stride": 3, "padding": 1}, 1,
    ),
}


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", AVERAGES)
def test_averages_of_windows_that_are_rounded_up(name):
    options, rank = AVERAGES[name]
    model = lambda x: getattr(F, f"avg_pool{rank}d")(x, ceil_mode=True, **options)  # noqa: E731
    shape = lambda n: (2, 3, n, n + 3, n + 1)[:rank + 2]  # noqa: E731
    compiled = inferno.compile(model, (torch.randn(shape(12)),), dynamic_shapes=({d + 2: Dim.AUTO for d in range(rank)},), fallback=False)
    for n in (12, 18, 24):  # (torch assumes which of the last windows begin outside)
        x = torch.randn(shape(n))
        assert_close_to_float64(compiled(x), model, (x,))


def test_one_window_that_is_large_enough_for_all():
    torch._dynamo.reset()
    model = lambda x: F.avg_pool2d(x, 64, ceil_mode=True).reshape(x.shape[:2])  # noqa: E731
    compiled = torch.compile(model, backend="inferno", dynamic=True, options={"fallback": False})
    inferno.stats(reset=True)
    for n in (12, 15, 40):
        x = torch.randn(2, 3, n, n + 3)
        assert_close_to_float64(compiled(x), model, (x,))
    assert inferno.stats().segments == 1


def test_sizes_that_others_are_made_of_twice():
    """Each is asked once: 24 of them would be asked in millions of ways."""
    def model(x):
        for _ in range(24):
            x = torch.cat([x, x])[::2]
        return x.sin()

    fast = inferno.compile(model, (torch.randn(8, 5),), dynamic_shapes=({0: Dim("n", min=2, max=64)},), target="cpu", fallback=False)
    for n in (8, 13):
        x = torch.randn(n, 5)
        assert_close_to_float64(fast(x), model, (x,))
