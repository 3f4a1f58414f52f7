"""Indices that tensors hold: negative ones count as in eager, and those out of range are errors, on the CPU, and never a write."""

import pytest
import torch
from torch.nn.functional import cross_entropy, embedding, embedding_bag, nll_loss

import inferno
from inferno.errors import IndexOutOfRange

ROWS = torch.ones(3, 4)
GIVEN = {
    "in range": [0, 1, 2], "negative": [0, -1, 2], "too large": [1, 2, 7], "too small": [0, -9, 2], "beyond 32 bits": [1, 2, 1 << 33],
    "ignored": [1, 2, -100],
}
CASES = {
    "index": lambda x, i: x[i],
    "two indices": lambda x, i: x[i, i - 2],
    "gather": lambda x, i: x.gather(0, i[:, None]) * 2,
    "gather along rows": lambda x, i: x.T.gather(1, i[None, :]),
    "embedding": lambda x, i: embedding(i, x) + 1,
    "embedding_bag": lambda x, i: embedding_bag(i[None], x),
    "index_select": lambda x, i: x.index_select(0, i),
    "take": lambda x, i: x.take(i * 4),
    "nll_loss": lambda x, i: nll_loss(x.T[:3], i),
    "cross_entropy": lambda x, i: cross_entropy(x.T[:3], i),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], ROWS),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i[:, None], ROWS, "amax"),
    "index_put": lambda x, i: x.index_put((i,), ROWS),
    "index_put, added": lambda x, i: x.index_put((i,), ROWS, accumulate=True),
    "index_put of elements": lambda x, i: x.index_put((i, i - 2), ROWS[:, 0]),
    "put": lambda x, i: x.put(i * 4, ROWS[:, 0]),
    "index_add": lambda x, i: x.index_add(0, i, ROWS),
}


def outcome(function, *args):
    try:
        return function(*args)
    except (IndexError, RuntimeError) as error:
        return error


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name", CASES)
def test_as_in_eager(name):
    function, x = CASES[name], torch.randn(5, 4)
    compiled = inferno.compile(function, (x, torch.tensor(GIVEN["in range"])), target="cpu", fallback=False)
    for what, given in GIVEN.items():
        if what == "negative" and name == "index_add":
            continue  # taken for a write by index, whose indices count from the end
        eager, ours = outcome(function, x, torch.tensor(given)), outcome(compiled, x, torch.tensor(given))
        assert isinstance(ours, IndexOutOfRange) == isinstance(eager, Exception), (what, eager, ours)
        if isinstance(eager, torch.Tensor):
            torch.testing.assert_close(ours, eager, equal_nan=True, msg=what)
        else:
            assert "test_indices.py" in str(ours)


@pytest.mark.parametrize("function", [lambda x, i: x.index_fill(0, i, 1.5), lambda x, i: x.index_fill(0, i, x[0, 0])])
def test_index_fill_counts_from_the_end(function):
    x, i = torch.randn(5, 4), torch.tensor([0, -2])
    assert torch.equal(inferno.compile(function, (x, i), target="cpu", fallback=False)(x, i), function(x, i))


def test_sizes_that_vary_and_empty_tables():
    batch = torch.export.Dim("batch", min=0, max=64)
    compiled = inferno.compile(
        lambda x, i: x[i] * 2, (torch.randn(8, 4), torch.tensor([1, 2])), target="cpu", fallback=False, dynamic_shapes=({0: batch}, None),
    )
    for rows, right in ((3, True), (2, False), (0, False)):
        x, i = torch.randn(rows, 4), torch.tensor([-1, 2])
        if right:
            assert torch.equal(compiled(x, i), x[i] * 2)
        else:
            with pytest.raises(IndexError):
                compiled(x, i)


def test_the_kernel_and_what_follows_it():
    """The error names the operation; nothing runs after it; the next call is as good as any, on several threads too."""
    def function(x, i):
        return (x @ x.T).gather(1, i).cumsum(0), x @ x.T

    x, i = torch.randn(300, 300), torch.randint(0, 300, (300, 300))
    wrong = i.clone()
    wrong[250, 7] = 300
    fast = torch.compile(function, backend="inferno", dynamic=False, options={"target": "cpu"})
    compiled = inferno.compile(function, (x, i), target="cpu")
    for call in (compiled, fast):
        for _ in range(2):
            with pytest.raises(IndexError, match=r"gather \(test_indices.py"):
                call(x, wrong)
            torch.testing.assert_close(call(x, i), function(x, i), rtol=1e-4, atol=1e-3)
