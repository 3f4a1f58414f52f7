"""Operations that upstream does not import, imports wrong or dies of: each reaches linalg, or is refused by name."""

import logging
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import inferno
from inferno.capture import capture, explain_failure
from inferno.errors import PassError
from inferno.mlir import ir, idle_context
from inferno.passes.manager import run_pipeline

i8 = torch.arange(-6, 6, dtype=torch.int8).reshape(3, 4)
x, index = torch.linspace(-2, 2, 12).reshape(3, 4), torch.tensor([[0, 1, 2, 0]])

CASES = {
    "scatter, negative dim": (lambda x, i: x.scatter(-2, i, 1.0), (x, index)),
    "scatter of a tensor, negative dim": (lambda x, i: x.scatter(-2, i, x), (x, index)),
    "scatter with an operation": (lambda x, i: x.scatter(0, i, x, reduce="multiply"), (x, index)),
    "scatter_add, negative dim": (lambda x, i: x.scatter_add(-2, i, x), (x, index)),
    "scatter_reduce, negative dim": (lambda x, i: x.scatter_reduce(-2, i, x, "amax"), (x, index)),
    "index_copy, negative dim": (lambda x, i: x.index_copy(-2, i[0, :2], x[:2]), (x, index)),
    "bytes": (lambda a: (a - 8, a * 3, 1 - a, a + a, a @ a.t()), (i8,)),
    "unsigned bytes": (lambda a: (a - 8, a * 3, a.mul(a)), (i8.view(torch.uint8),)),
    "nothing": (lambda a: (a.repeat(3, 2), F.unfold(a.reshape(0, 1, 5, 5), 2), a.roll(1, 0)), (torch.zeros(0, 25),)),
    "stable sort": (lambda a: torch.sort(a, stable=True), (x,)),
    "bins": (lambda a: torch.histc(a, 4, -1, 1), (x,)),
    "the bits of floats": (lambda a: (a.view(torch.int32) >> 1).view(torch.float32), (x,)),
    "running maximum": (lambda a: torch.cummax(a, 0), (x,)),
    "running log-sum-exp": (lambda a: torch.logcumsumexp(a, 1), (x,)),
    "median": (lambda a: (torch.median(a, 1), torch.nanmedian(a, 0), torch.median(a)), (x,)),
    "search": (lambda a: torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), a), (x,)),
    "mask in place": (lambda a: a.index_put((a > 0,), torch.tensor(7.0)), (x,)),
    "mask of rows": (lambda a: a.masked_fill((a.sum(1) > 0).unsqueeze(1), 0.0), (x,)),
    "fmod, fmin, hypot": (lambda a: (torch.fmod(a, 0.7), torch.fmin(a, a[:1]), torch.hypot(a, a), torch.erfc(a)), (x,)),
    "signs": (lambda a: (torch.copysign(a, a[:1]), torch.signbit(a), torch.angle(a)), (x,)),
    "distances": (lambda a: (torch.cdist(a, a), torch.dist(a, a + 1)), (x,)),
    "scalars": (lambda a: (a.cumsum(0), a.max(0), a.sort(), a.logsumexp(0)), (torch.tensor(2.0),)),
    "checks of all": (lambda a: (torch.ops.aten._is_all_true(a > -9), torch.ops.aten._is_any_true(a > 9)), (x,)),
    "all of several": (lambda a: ((a > 0).all((0, 1)), (a > 0).any((0, 1), keepdim=True)), (x,)),
    "diagonal": (lambda a: torch.diagonal_scatter(a, a[:3, 0]), (x,)),
    "copies of views": (lambda a: (torch.view_copy(a, (12,)), torch.permute_copy(a, (1, 0)), torch.unbind_copy(a)), (x,)),
    "pooling without a batch": (lambda a: F.max_pool2d(a, 2, return_indices=True), (torch.randn(3, 4, 4),)),
    "bf16 linear": (nn.Linear(4, 4).bfloat16(), (x.bfloat16(),)),
    "bf16 constants": (lambda a: a + torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.bfloat16), (x.bfloat16(),)),
    "float8": (lambda a: a.to(torch.float8_e4m3fn).to(torch.float32) * 2, (x,)),
}


def linalg(text):
    module = ir.Module.parse(text, idle_context())
    run_pipeline(module, "inferno-import")
    return str(module)


@pytest.mark.covering(most=7)
@pytest.mark.parametrize("name", CASES)
def test_reaches_linalg(name):
    model, args = CASES[name]
    text = linalg(capture(model, args).text)
    assert "func.func @main" in text and "torch." not in text and "?" not in text


@pytest.mark.covering(most=7)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_dtypes(dtype):
    a = torch.ones(3, 4, dtype=getattr(torch, dtype))
    text = linalg(capture(lambda a, b: (torch.where(b, a, a[:1]), a.to(torch.float32), a == a, a.flatten()), (a, torch.ones(3, 4, dtype=torch.bool))).text)
    cast = [] if dtype == "float32" else ["tensor<3x4xf32>"]  # what is a view of an argument is no result
    assert re.search(r"-> \((.*)\) {", text).group(1).split(", ")[1:] == [*cast, "tensor<3x4xi1>"]


def test_a_16_bit_matmul_stays_one():
    text = capture(lambda c, a, b: torch.addmm(c, a, b), (x[:, :3].bfloat16(), x.bfloat16(), x[:, :3].reshape(3, 3).new_ones(4, 3).bfloat16())).text
    assert "torch.aten.mm %arg1, %arg2 : !torch.vtensor<[3,4],bf16>" in text


def lowers(text):
    try:
        linalg(text)
    except PassError:
        return False
    return True


def test_the_operation_that_fails_is_named():
    def f(a):
        b = torch.relu(a) + 1
        return torch.special.airy_ai(b) * 2

    captured = capture(f, (x,))
    with pytest.raises(PassError) as failed:
        linalg(captured.text)
    line = f.__code__.co_firstlineno + 2
    assert f"aten.special_airy_ai at {__file__}:{line} on (f32[3, 4]) is not supported" in str(explain_failure(captured.text, str(failed.value)))


def test_the_operation_that_fails_alone_is_named():
    """MLIR complains of a constant here; only trying each operation finds the right one."""
    text = """
      func.func @main(%a: !torch.vtensor<[2,4],f32>) -> !torch.vtensor<[2,2],si64> {
        %r = torch.aten.relu %a : !torch.vtensor<[2,4],f32> -> !torch.vtensor<[2,4],f32> loc("relu"("model.py":1:0))
        %i = torch.constant.int 4
        %v = torch.aten.view.dtype %r, %i : !torch.vtensor<[2,4],f32>, !torch.int -> !torch.vtensor<[2,2],si64> loc("view"("model.py":2:0))
        return %v : !torch.vtensor<[2,2],si64>
      }"""
    with pytest.raises(PassError) as failed:
        linalg(text)
    said = explain_failure(text, "error: failed to legalize operation 'torch.constant.int'", lowers)
    assert "aten.view.dtype at model.py:2 on (f32[2, 4]) is not supported" in str(said)
    assert "view" in str(failed.value) or "constant" in str(failed.value)



def test_windows_without_steps():
    """They go by the window's size."""
    x = torch.randn(1, 2, 4, 4)
    for divisor in (None, -2):
        def pool(x, divisor=divisor):
            return torch.ops.aten.avg_pool2d(x, (2, 2), (), (0,), False, True, divisor)

        compiled = inferno.compile(pool, (x,), target="cpu", fallback=False)
        torch.testing.assert_close(compiled(x), pool(x))


def test_what_is_lowered_to_something_invalid_is_an_error():
    """And not canonicalized, which would not come to an end."""
    text = """func.func @main(%x: !torch.vtensor<[1,1,4,4],f32>) -> !torch.vtensor<[1,1,2,2],f32> {
      %two = torch.constant.int 2
      %zero = torch.constant.int 0
      %false = torch.constant.bool false
      %true = torch.constant.bool true
      %none = torch.constant.none
      %window = torch.prim.ListConstruct %two, %two : (!torch.int, !torch.int) -> !torch.list<int>
      %steps = torch.prim.ListConstruct : () -> !torch.list<int>
      %padding = torch.prim.ListConstruct %zero : (!torch.int) -> !torch.list<int>
      %0 = torch.aten.avg_pool2d %x, %window, %steps, %padding, %false, %true, %none : !torch.vtensor<[1,1,4,4],f32>, !torch.list<int>,
        !torch.list<int>, !torch.list<int>, !torch.bool, !torch.bool, !torch.none -> !torch.vtensor<[1,1,2,2],f32>
      return %0 : !torch.vtensor<[1,1,2,2],f32>
    }"""
    with idle_context(), ir.Location.unknown(), pytest.raises(PassError):
        run_pipeline(ir.Module.parse(text), "inferno-import")


def test_numbers_of_another_kind_than_a_constant():
    """Computed while compiling, by folding that takes the bits of an integer for a float's, or ends the process."""
    def compute(x):
        ones, whole = torch.full((3,), 2.5), torch.full((2,), 7)
        folded = ones + -1, ones < 0, ones == 2, torch.sign(ones), ones.trunc(), whole < 7.5, torch.full((), True) > 0.5, torch.zeros(2) >= 0
        return *folded, 10000 ** (2 * torch.div(torch.arange(4.0), 2, rounding_mode="floor") / 4) + x

    x = torch.randn(1)
    compiled = inferno.compile(compute, (x,), target="cpu", fallback=False)
    torch.testing.assert_close(compiled(x), compute(x))


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_what_is_no_number_is_not_equal_to_itself(dtype):
    """Folding takes a value for equal to itself, also where it was a copy of it."""
    def compare(x):
        return x == x, x == x.clone(), torch.where(x == x, x, 0), (x == x) & (x.abs() != float("inf")), torch.isclose(x, x), x != x

    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0, -0.0, 2]).to(dtype)
    torch.testing.assert_close(inferno.compile(compare, (x,), target="cpu")(x), compare(x), equal_nan=True)
    torch._dynamo.reset()
    finite = torch.compile(lambda x: x.isfinite(), backend="inferno")
    assert torch.equal(finite(x), x.isfinite())


def test_the_root_logger_is_left_alone(monkeypatch):
    """It got a handler, so that a program's own ``logging.basicConfig`` did nothing."""
    monkeypatch.setattr(logging.root, "handlers", [])
    capture(torch.relu, (torch.ones(3),))
    assert logging.root.handlers == []
