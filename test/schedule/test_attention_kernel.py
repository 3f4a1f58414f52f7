"""Attention is found by its structure, in whatever form; what is said of it, and the kernel function itself, compute what the program did."""

import pytest
import torch
from attention_cases import CASES, F, calls, conformer, evaluate, fused, read, sdpa
from checks import assert_close_to_float64

import inferno
from inferno.mlir import ir, idle_context
from inferno.schedule.attention.bands import Band
from inferno.tools.check import reference
from inferno.tools.ir_program import IrProgram


ELEMENTS = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}


def operands(name: str, dtype: torch.dtype) -> tuple:
    torch.manual_seed(0)
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in CASES[name][1]())


def is_one_kernel(attend, args, path):
    """And right, by its structured operations."""
    with idle_context(), ir.Location.unknown():
        module = fused(attend, args)
        assert len(calls(module)) == 1
        path.write_text(str(module))
    assert_close_to_float64(IrProgram.read(path, "cpu")(*args)[0], attend, args)


@pytest.mark.covering(most=4)
@pytest.mark.parametrize("name, dtype", [*((name, torch.bfloat16) for name in CASES), ("grouped", torch.float32), ("bias", torch.float16)])
def test_what_is_said_of_it(name, dtype):
    function, _, band = CASES[name]
    args = operands(name, dtype)
    with idle_context(), ir.Location.unknown():
        a, arguments = read(fused(function, args), args)
        assert a.band == (None if band is None else Band(*band))
        assert {str(o.element) for o in (a.q, a.k, a.v)} == {str(a.weight)} == {ELEMENTS[dtype]}
        assert a.q.prologue is a.k.prologue is a.v.prologue is None
        assert a.score is None or name not in ("plain", "scaled before", "lengths", "causal", "grouped", "window", "added")
        found = evaluate(a, arguments)
    with torch.no_grad():
        wanted = reference(function, args)
    torch.testing.assert_close(found.reshape(wanted.shape), wanted, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", ["causal", "grouped", "bools", "window", "added to a bias", "further"])
def test_the_function_on_the_cpu(tmp_path, name):
    is_one_kernel(CASES[name][0], operands(name, torch.bfloat16), tmp_path / "attention.mlir")


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("flat", [True, False])
def test_a_bias_of_a_table_is_looked_up_in_front(tmp_path, flat):
    """Swin's windows and BEiT's have a bias for each distance of two places: not with each score, which would keep products and softmax apart."""
    def attend(q, k, v, table, index):
        bias = table[index.flatten()].view(12, 12, 4).permute(2, 0, 1)
        scores = _scores(q, k).unflatten(0, (2, 1)) if flat else _scores(q, k)
        return torch.softmax((scores + bias).reshape(2, 4, 12, 12), -1) @ v

    args = (*operands("plain", torch.bfloat16), torch.randn(23, 4).bfloat16(), torch.randint(0, 23, (12, 12)))
    is_one_kernel(attend, args, tmp_path / "attention.mlir")


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("places", [lambda i: i.abs().clamp(max=7), lambda i: i.clamp(-5, 5) + 5], ids=["near ones", "of both sides"])
def test_a_bias_of_distances_that_are_cut_off_is_looked_up_in_front(tmp_path, places):
    """As T5's buckets: no strides say where their elements are."""
    def attend(q, k, v, table):
        i = torch.arange(12)
        bias = F.embedding(places(i[:, None] - i), table).permute(2, 0, 1)
        return torch.softmax((_scores(q, k) + bias).float(), -1).to(q.dtype) @ v

    args = (*operands("plain", torch.bfloat16), torch.randn(11, 4).bfloat16())
    is_one_kernel(attend, args, tmp_path / "attention.mlir")


def test_rows_that_are_shifted_are_read_where_they_are():
    args = operands("relative", torch.bfloat16)
    with idle_context(), ir.Location.unknown():
        a, _ = read(fused(CASES["relative"][0], args), args)
    (scores,) = a.score_extras
    assert (scores.strides[a.queries.dims[-1]], scores.strides[a.keys.dims[-1]], scores.offset) == (22, 1, 11)


def test_what_is_added_to_queries_is_computed_in_front(tmp_path):
    """As for products alone it is not, of few rows."""
    q, k, v = operands("plain", torch.bfloat16)
    more = torch.randn(4, 23, 16), torch.randn(4, 16), torch.randn(4, 16)
    is_one_kernel(conformer, (q, k, v, *(x.bfloat16() for x in more)), tmp_path / "attention.mlir")


def test_rows_that_are_shifted_into_others(tmp_path):
    """Transformer-XL's have as many distances as keys: what is behind the diagonal is of the next row, or 0, and is made in front."""
    def attend(q, k, v, scores):
        n = scores.shape[-1]
        shifted = F.pad(scores, (1, 0)).reshape(2, 4, n + 1, n)[:, :, 1:].reshape(scores.shape)
        return torch.softmax((_scores(q, k) + shifted) / 4, -1) @ v

    is_one_kernel(attend, (*operands("plain", torch.bfloat16), torch.randn(2, 4, 12, 12).bfloat16()), tmp_path / "attention.mlir")


def _scores(q, k):
    return q @ k.transpose(-1, -2)


def _in_steps(scores, steps):
    for _ in range(steps):
        scores = scores * 0.9 + scores.sin()
    return scores


APART = {
    "hundreds of steps": lambda q, k, v: torch.softmax(_in_steps(_scores(q, k), 130), -1) @ v,
    "weights are returned": lambda q, k, v: (torch.softmax(_scores(q, k), -1), torch.softmax(_scores(q, k), -1) @ v),
    "scores are returned": lambda q, k, v: (_scores(q, k), torch.softmax(_scores(q, k), -1) @ v),
    "masked by another one": lambda q, k, v: (s := _scores(q, k)).masked_fill(s > 1, -torch.inf).softmax(-1).masked_fill(s > 2, 0) @ v,
    "not linear": lambda q, k, v: torch.softmax(_scores(q, k), -1).square() @ v,
    "over the queries": lambda q, k, v: torch.softmax(_scores(q, k), -2) @ v,
    "over the heads": lambda q, k, v: torch.softmax(_scores(q, k), 1) @ v,
    "another sum": lambda q, k, v: (e := torch.exp((s := _scores(q, k)) - s.amax(-1, keepdim=True))) / (e[..., :1] + e.sum(-1, keepdim=True)) @ v,
    "another largest": lambda q, k, v: (e := torch.exp((s := _scores(q, k)) - s.amax(-1, keepdim=True).clamp(min=0))) / (1 + e.sum(-1, keepdim=True)) @ v,
    "divided by other weights": lambda q, k, v: _scores(q, k) / (_scores(q, k).square().sum(-1, keepdim=True) + 1) @ v,
    "divided by the sum of columns": lambda q, k, v: (s := _scores(q, k).sigmoid()) / s.sum(-2, keepdim=True) @ v,
    "divided twice": lambda q, k, v: (w := (s := _scores(q, k).sigmoid()) / s.sum(-1, keepdim=True)) / (w.sum(-1, keepdim=True) + 1) @ v,
    "a negative sum": lambda q, k, v: (e := torch.exp((s := _scores(q, k)) - s.amax(-1, keepdim=True))) / (e.sum(-1, keepdim=True) - 0.5) @ v,
    "of the next largest": lambda q, k, v: torch.exp((s := _scores(q, k)) - s.amax(-1, keepdim=True)) / torch.exp(s - 1).sum(-1, keepdim=True) @ v,
    "no softmax": lambda q, k, v: F.normalize(_scores(q, k), dim=-1) @ v,
    "scores of rows": lambda q, k, v: torch.softmax((s := _scores(q, k)) / s.sum(-1, keepdim=True), -1) @ v,
    "results of rows": lambda q, k, v: (torch.softmax(s := _scores(q, k), -1) @ v) * s.amax(-1, keepdim=True),
    "float64": lambda q, k, v: sdpa(q.double(), k.double(), v.double()),
}


@pytest.mark.thorough
@pytest.mark.covering(most=2)
@pytest.mark.parametrize("name", APART)
def test_what_is_none(name):
    with idle_context(), ir.Location.unknown():
        assert not calls(fused(APART[name], operands("plain", torch.float32)))


def test_rows_that_others_read_with_an_argument():
    """What is computed of rows of the softmax, and of a tensor that is given, is no part of attention; nor was that asked of an argument's maker."""
    def function(q, k, v, w):
        scores = (q @ k.mT).float() * 0.125
        most = scores.amax(-1, keepdim=True)
        powers = (scores - most).exp()
        sums = powers.sum(-1, keepdim=True)
        return (powers / sums).to(q.dtype) @ v, (most + sums.log()) * w

    args = [torch.randn(1, 2, 512, 64).bfloat16() for _ in range(3)]
    rows = inferno.compile(function, (*args, torch.randn(1, 2, 512, 1)), target="sm_90a", fallback=False).explain().rows
    assert "attention" not in {row.generator for row in rows} and len(rows) <= 4
