"""Programs that transpose tensors between maps and reductions, and what becomes of them."""

import random

import pytest
import torch
from checks import assert_close_to_float64
from torch import Tensor

import inferno

STEPS = ("transpose", "transpose", "times", "softmax", "less mean", "normalize", "tanh plus")


def draw(seed: int):
    """A program of three to seven steps on a small tensor, and its arguments."""
    choice = random.Random(seed)
    shape = [choice.choice((3, 5, 8, 13)) for _ in range(choice.choice((2, 3)))]
    tensors, steps = [torch.randn(shape)], []
    for name in choice.choices(STEPS, k=choice.randint(3, 7)):
        if name == "transpose":
            order = choice.sample(range(len(shape)), len(shape))
            shape = [shape[d] for d in order]
            steps.append((name, order))
        elif name in ("times", "tanh plus"):
            tensors.append(torch.randn([n if choice.random() < 0.5 else 1 for n in shape]))
            steps.append((name, len(tensors) - 1))
        else:
            steps.append((name, choice.randrange(len(shape))))
    kept = choice.randrange(len(steps))

    def program(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        x, early = tensors[0], tensors[0]
        for number, (name, how) in enumerate(steps):
            match name:
                case "transpose":
                    x = x.permute(how)
                case "times":
                    x = x * tensors[how]
                case "tanh plus":
                    x = torch.tanh(x) + tensors[how]
                case "softmax":
                    x = x.softmax(how)
                case "less mean":
                    x = x - x.mean(how, keepdim=True)
                case "normalize":
                    x = torch.nn.functional.normalize(x, dim=how)
            early = x if number == kept else early
        return x.contiguous(), early.sum(-1)

    return program, tuple(tensors)


@pytest.mark.covering(most=6)
@pytest.mark.parametrize("seed", range(16))
def test_transposed_programs_are_right(seed):
    torch.manual_seed(seed)
    program, tensors = draw(seed)
    for got, number in zip(inferno.compile(program, tensors, fallback=False)(*tensors), range(2)):
        assert_close_to_float64(got, lambda *t, n=number: program(*t)[n], tensors)


def test_what_is_transposed_back_is_one_kernel():
    def program(x, c):
        return (x.softmax(-1) * 2).t().mul(c).softmax(0).t().contiguous()

    compiled = inferno.compile(program, (torch.randn(96, 256), torch.randn(256, 1)), target="sm_90a")
    assert [row.generator for row in compiled.explain().rows] == ["rows"]


def test_products_and_maps_of_more_loops_follow():
    """What a convolution along tokens gives, by channels: read by a product and beside states."""
    def program(x, w, h):
        y = torch.nn.functional.silu(torch.nn.functional.conv1d(x.transpose(1, 2), w, padding=2, groups=w.shape[0])[..., : x.shape[1]])
        y = y.transpose(1, 2)
        return y @ w[:, 0], y.unsqueeze(-1) * h

    torch.manual_seed(0)
    tensors = torch.randn(1, 9, 6), torch.randn(6, 1, 3), torch.randn(1, 9, 6, 4)
    for number, got in enumerate(inferno.compile(program, tensors, fallback=False)(*tensors)):
        assert_close_to_float64(got, lambda *t, n=number: program(*t)[n], tensors)
