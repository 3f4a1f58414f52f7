"""Calls of a program whose sizes vary, with functions of ours in the driver's place: what is launched, results, and what is checked."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from fake_driver import FakeDriver

from inferno.capture import capture
from inferno.errors import InputError, LaunchError
from inferno.runtime.call.gpu import make_fast_call
from inferno.runtime.launch import driver as cuda, sized_executable
from inferno.runtime.launch.sized_executable import SizedGpuExecutable
from inferno.runtime.plan.plan import Buffer, Launch, Output, Plan, Scalar
from inferno.symbolic import Symbol, ceildiv, size_of

SYMBOL = Symbol("s0", hint=8)
N = size_of(SYMBOL)
X, Y, KEPT = Buffer("argument", 0, (N, 4), "f32"), Buffer("result", 1, (2 * N, 2), "f32"), Buffer("argument", 1, (4,), "f32")
STEPS = (Launch("k::k", (ceildiv(N, 4), 1, 1), (128, 1, 1), (1, 1, 1), 0, (X, Y, KEPT, Buffer("workspace", 0, (N,), "f32"), Scalar(N))),)
PLAN = Plan(STEPS, (X, KEPT), (Output((4,), "f32", argument=1), Output(Y.shape, "f32", result=1)), 16 * N, (SYMBOL,))


@pytest.fixture(params=["native", "interpreted"])
def made(request, monkeypatch):
    """(the executable, the driver), of a machine whose GPU is the CPU's memory."""
    fake = FakeDriver({1: 5}, launch_fails_at=4)
    addresses = {"cuLaunchKernelEx": fake.launch, "cuTensorMapEncodeTiled": fake.encode, "cuTensorMapEncodeIm2col": fake.pixels}
    monkeypatch.setattr(cuda, "address", addresses.get)
    monkeypatch.setattr(cuda, "describe", str)
    monkeypatch.setattr(cuda, "current_context", lambda: 7)
    monkeypatch.setattr(sized_executable, "spread_blocks", lambda plan, modules, index: replace(plan, steps=(replace(plan.steps[0], shared=64 * N),)))
    monkeypatch.setattr(sized_executable, "functions_of", lambda plan, modules, index: [1])
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(synchronize=lambda: None))
    for name, value in (("_cuda_getDevice", 0), ("_cuda_getCurrentRawStream", 0x57)):
        monkeypatch.setattr(torch._C, name, lambda *index, value=value: value, raising=False)
    executable = SizedGpuExecutable(PLAN, {}, torch.device("cuda", 0), [torch.float32] * 2, True, interpret=request.param == "interpreted")
    executable.device = torch.device("cpu")
    return executable, fake


def model(x, kept):
    kept.mul_(2)
    return torch.cat([x, x]).view(-1, 2)[: 2 * x.shape[0]]


@pytest.fixture(scope="module")
def signature():
    dims = ({0: torch.export.Dim("n", min=0)}, None)
    return capture(model, (torch.randn(8, 4), torch.randn(4)), dynamic_shapes=dims).signature


def test_launches_and_results(made, signature):
    executable, driver = made
    kept, slow = torch.randn(4), []
    call = make_fast_call(signature, executable, [], lambda *given: slow.append(given))
    call(torch.randn(8, 4), kept)
    assert len(slow) == 1 and not driver.launches  # addresses are new: whether they overlap is for the general way
    for rows in (8, 12, 8, 0, 1):
        x, count, version = torch.randn(rows, 4), len(driver.launches), kept._version
        call(x, kept)
        del driver.launches[count:]
        result = call(x, kept)
        assert isinstance(result, torch.Tensor) and result.shape == (2 * rows, 2) and result.is_contiguous() and kept._version >= version + 1
        expected = [(1, (-(-rows // 4), 1, 1, 128, 1, 1, 64 * rows), 0x57)] if rows else []
        assert [launch[:3] for launch in driver.launches[count:]] == expected
        for *_, values in driver.launches[count:]:
            assert values[:3] == [x.data_ptr(), result.data_ptr(), kept.data_ptr()] and values[4] == rows
    assert sorted(executable.kept) == [(0,), (1,), (8,), (12,)]


def test_other_calls_go_the_general_way(made, signature):
    executable, driver = made
    slow = []
    call = make_fast_call(signature, executable, [], lambda *given: slow.append(given))
    for x in (torch.randn(8, 5), torch.randn(8, 4).double(), None, torch.randn(4, 8).t()):
        call(x, torch.randn(4))
    assert len(slow) == 4 and not driver.launches


def test_the_general_way(made):
    executable, driver = made
    x, kept = torch.randn(6, 4), torch.randn(4)
    first, second = executable.run([x, kept])
    assert first.data_ptr() == kept.data_ptr() and second.shape == (12, 2)
    assert driver.launches[0][-1][:3] == [x.data_ptr(), second.data_ptr(), kept.data_ptr()]


def test_a_launch_that_fails_names_the_sizes(made):
    executable, _ = made
    for _ in range(4):
        executable.run([torch.randn(3, 4), torch.randn(4)])
    with pytest.raises(LaunchError, match=r"launching k::k for sizes {'s0': 3}: 719"):
        executable.run([torch.randn(3, 4), torch.randn(4)])


def test_too_many_elements(made):
    with pytest.raises(InputError, match="would have 4294967296 elements"):
        made[0].templates_at((2**30,))
