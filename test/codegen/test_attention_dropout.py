"""Dropout in the kernels of attention and of its gradients, on the simulator against float64 with the same numbers."""

import dataclasses

import pytest
import torch
from kernels import TARGET
from universal_program import SimulatedModel

from inferno.capture import capture, trained_attention
from inferno.codegen import generate
from inferno.runtime.workers import jobs
from inferno.schedule.attention import dropout as attention_dropout
from inferno.schedule.attention.attention_gradients import AttentionGradients
from inferno.schedule.attention.gradient_parser import parse_attention_gradient
from inferno.schedule.attention.parser import parse_attention
from inferno.schedule.attention.schedule import Attention

PASSES = "fuse-attention{target=sm_90a always=1},fuse-attention-gradients{target=sm_90a always=1 together=1}"
SEED = torch.tensor(-7_000_000_123_456_789)


def numbers():
    return torch.randn(2, 1, 1, 70).masked_fill(torch.rand(2, 1, 1, 70) > 0.7, torch.finfo(torch.bfloat16).min).bfloat16()


# (batch, heads, heads of keys, queries, keys, columns), causal, a mask, what is dropped, the forward's schedule, the backward's
FORMS = {
    "grouped, numbers": ((2, 2, 1, 40, 70, 32), False, numbers, 0.5, Attention(1, 32, 2, turns=False), AttentionGradients(1, 32, apart=True, ahead=True)),
    "causal, in two kernels": ((1, 2, 2, 70, 90, 40), True, None, 0.2, Attention(2, 48, 2, order="dynamic"), AttentionGradients(1, 32)),
}


def exact(given, mask, causal, scale, dropout):
    """In float64 by torch's own differentiation: what the forward gives, and the gradients."""
    *tensors, gradient = given
    leaves = [t.detach().double().requires_grad_() for t in tensors]
    q, k, v = (t.repeat_interleave(gradient.shape[1] // t.shape[1], 1) for t in leaves)
    scores = q @ k.mT * scale
    scores = scores if mask is None else scores + mask.double()
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    kept = trained_attention.kept(scores.detach().float(), SEED, dropout)
    result = (scores.softmax(-1) * kept.double()) @ v
    return [result.detach(), *torch.autograd.grad(result, leaves, gradient.double())], 1 - (kept == 0).double().mean()


@pytest.mark.thorough
@pytest.mark.covering(most=1)
@pytest.mark.parametrize("name", FORMS)
def test_simulated(name, monkeypatch):
    (batch, heads, shared, queries, keys, size), causal, mask, dropout, *schedules = FORMS[name]
    torch.manual_seed(0)
    shapes = [(batch, heads, queries, size), *[(batch, shared, keys, size)] * 2, (batch, heads, queries, size)]
    *qkv, gradient = given = [torch.randn(s).bfloat16() for s in shapes]
    bias, scale, found = mask() if mask else None, size**-0.5, []
    forward, backward = ((trained_attention.forward, trained_attention.backward) if bias is None else
                         (trained_attention.biased_forward, trained_attention.biased_backward))
    together = name == "grouped, numbers"
    monkeypatch.setattr(generate, "find_target", lambda name: dataclasses.replace(TARGET, multiprocessors=3))

    def chosen(kernel):
        for parse, schedule in zip((parse_attention, parse_attention_gradient), schedules):
            if (a := parse(kernel)) is not None:
                assert a.dropout is not None
                found.append(schedule)
                return schedule
        return None

    def run(function, *args):
        passes = PASSES if together else PASSES.replace(" together=1", "")
        return SimulatedModel(function, args, choose=chosen, early=together, passes=passes)(*args)

    masks = () if bias is None else (bias,)
    first = run(lambda q, k, v, seed, bias=None: forward(q, k, v, bias, causal, scale, seed, dropout), *qkv, SEED, *masks)

    def differentiated(gradient, q, k, v, seed, *rest):
        bias, rest = (rest[0], rest[1:]) if masks else (None, rest)
        return backward(gradient, q, k, v, bias, *rest, causal, scale, seed, dropout)

    args = (gradient, *qkv, SEED, *masks, *first)
    ours, (wanted, part) = [first[0], *run(differentiated, *args)], exact(given, bias, causal, scale, dropout)
    assert len(found) == (2 if together else 3) and abs(part - 1 + dropout) < 0.02
    for mine, plain, right in zip(ours, (forward(*qkv, bias, causal, scale, SEED, dropout)[0], *differentiated(*args)), wanted):
        bound = max(1.5 * (plain.double() - right).norm(), torch.finfo(plain.dtype).eps * right.norm())
        assert mine.shape == right.shape and (mine.double() - right).norm() <= bound


def test_other_numbers_are_none_of_attention(monkeypatch):
    """Whatever else is multiplied, or drawn, is left to kernels of its own."""
    def model(q, seed):
        return trained_attention.forward(q, q, q, None, False, 0.125, seed, 0.1)

    linalg, _ = jobs.lower_to_linalg(capture(model, (torch.zeros(1, 2, 512, 64).bfloat16(), SEED)).text)
    kernels = []
    for change in (0, 1):
        monkeypatch.setattr(attention_dropout, "score", lambda *given, change=change, score=attention_dropout.score: score(*given) ^ change)
        kernels.append(jobs.fuse(linalg, "sm_90a", features=["attention", "unmeasured"]).stages["scheduled"].count("func.func private"))
    assert kernels[0] == 1 < kernels[1]
