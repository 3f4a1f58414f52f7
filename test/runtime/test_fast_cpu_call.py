"""The unrolled call on the CPU: usual calls take it, all others get the same answers or the right errors."""

import threading

import pytest
import torch
from torch import nn

import inferno
from inferno.errors import InputError


def add(x, y):
    return x + y


def test_usual_calls_do_not_take_the_general_way(monkeypatch):
    x, y = torch.randn(8, 4), torch.randn(8, 4)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)).eval()
    for function, args in ((add, (x, y)), (lambda x, y: {"sum": x + y, "both": [x * y, x - 1]}, (x, y)), (model, (torch.randn(64, 16),))):
        made = inferno.compile(function, args, target="cpu")
        monkeypatch.setattr(type(made), "_call", None)
        with torch.no_grad():
            torch.testing.assert_close(made(*args), function(*args))
        monkeypatch.undo()


def test_inputs_by_name_do_not_take_the_general_way(monkeypatch):
    x, y, z = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8, 4)

    def function(x, y, *, z):
        return x - 2 * y + 3 * z

    made = inferno.compile(function, (x,), kwargs={"y": y, "z": z}, target="cpu")
    with pytest.raises(InputError):
        made(x, y=y, w=z)
    torch.testing.assert_close(made(x, y, z=z), function(x, y, z=z))
    torch.testing.assert_close(made(x, y=y.t().contiguous().t(), z=z), function(x, y, z=z))
    monkeypatch.setattr(type(made), "_call", None)
    for kwargs in ({"y": y, "z": z}, {"z": z, "y": y}):
        torch.testing.assert_close(made(x, **kwargs), function(x, **kwargs))


def test_a_list_of_one_tensor_is_no_tensor():
    x = torch.randn(8, 4)
    made = inferno.compile(lambda x: x[0] + 1, ([x],), target="cpu")
    assert torch.equal(made([x]), x + 1)


def test_other_calls_are_right():
    x, y = torch.randn(8, 4), torch.randn(8, 4)
    made = inferno.compile(add, (x, y), target="cpu")
    assert torch.equal(made(torch.randn(4, 8).t().copy_(x), y), x + y)
    assert torch.equal(made(torch.randn(33)[1:].view(8, 4).copy_(x), y), x + y)
    assert torch.equal(made(x, y=y), x + y)
    with torch.no_grad():
        assert torch.equal(made(x.clone().requires_grad_(), y), x + y)
    for wrong in ((x.double(), y), (x[:4], y), (x.requires_grad_(), y), (3, y)):
        with pytest.raises(InputError):
            made(*wrong)
    made = inferno.compile(lambda x: (x, x + 1), (y,), target="cpu")
    assert torch.equal(made(y)[0], y) and torch.equal(made(y)[1], y + 1)


def test_parameters_are_read_at_each_call():
    model = nn.Linear(16, 4).eval()
    made, x = inferno.compile(model, (torch.randn(3, 16),), target="cpu"), torch.randn(3, 16)
    with torch.no_grad():
        made(x)
        model.bias = nn.Parameter(torch.ones(4))
        model.weight.mul_(2)
        torch.testing.assert_close(made(x), model(x))


def test_calls_from_several_threads():
    made = inferno.compile(lambda x: torch.softmax(x, -1) * x, (torch.randn(100, 200),), target="cpu")
    wrong = []

    def work(seed: int) -> None:
        x = torch.randn(100, 200, generator=torch.Generator().manual_seed(seed))
        expected = torch.softmax(x, -1) * x
        wrong.extend(1 for _ in range(200) if not torch.allclose(made(x), expected, rtol=1e-5, atol=1e-6))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
