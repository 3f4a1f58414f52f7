"""Reads of the place that a tensor of one number says compile once, whatever the number, and share memory where eager's do."""

import torch

import inferno

X = torch.arange(20.0).reshape(5, 4)


def model(x, t, i):
    """Reads, and a part that is changed and put back."""
    rows = x.reshape(5, 2, 2).transpose(0, 2) * 1
    rows[:, t] += i[0]
    return x[t] * 2, x[None, i, t] + 1, rows[t] * 1, x[t].chunk(2)[1] * 1, rows


def right(fast, model, gradient=False):
    for number in (1, -1):
        given = torch.tensor(number, dtype=torch.int32), torch.tensor([1, 2])
        x, y = (X.clone().requires_grad_(gradient) for _ in range(2))
        found, expected = fast(x, *given), model(y, *given)
        for ours, eager in zip(found, expected, strict=True):
            assert torch.equal(ours, eager) and ours.stride() == eager.stride()
        if gradient:
            for results in (found, expected):
                (results[0] * results[1].sum() + results[2].sum()).sum().backward()
            assert torch.equal(x.grad, y.grad)


def test_one_graph_of_torch_compile():
    fast = torch.compile(model, backend="inferno")
    right(fast, model, gradient=True)
    assert not inferno.explain(fast).fallbacks


def test_one_program():
    def model(x, t, i):
        return x[t - 1] * 2, x[:, t + 0] * i[0]

    given = X, torch.tensor(2, dtype=torch.int32), torch.tensor([1, 2])
    right(inferno.compile(model, given, target="cpu", fallback=False), model)


def test_a_view_is_no_copy_where_that_can_be_told():
    def returned(x, t):
        return x[t]

    def written(x, t):
        y = x[t]
        y += 1
        return y * 2

    def written_beneath(x, t):
        y = x[t]
        x.mul_(2)
        return y * 1

    def returned_beside(x, t):
        y = x * 2
        return y[t], y

    for model in (returned, written, written_beneath, returned_beside):
        x, y, t = X.clone(), X.clone(), torch.tensor(1)
        found, expected = torch.compile(model, backend="inferno")(x, t), model(y, t)
        for ours, eager in ((found, expected),) if isinstance(found, torch.Tensor) else zip(found, expected):
            assert torch.equal(ours.mul_(3), eager.mul_(3))
        assert torch.equal(x, y)
        if model is returned_beside:
            assert torch.equal(found[1], expected[1])
    for model in (written, written_beneath):
        fast, x, y = inferno.compile(model, (X.clone(), t), target="cpu"), X.clone(), X.clone()
        assert torch.equal(fast(x, t), model(y, t)) and torch.equal(x, y)
