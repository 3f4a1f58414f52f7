"""What tests of generators of small and narrow products share: a program on the simulator, whose product has a schedule of theirs."""

import torch
from checks import check
from kernels import TARGET
from universal_program import SimulatedModel

from inferno.schedule.maps import elementwise
from inferno.schedule.matmul.parser import parse_contraction


def assert_product_right(generator, function, args, schedule=None, dtype=torch.float32):
    """``args`` are tensors or shapes of normal ones, ``generator`` the module that has its schedules, of which the one with the least estimate is taken where
    none is given; returns the schedule."""
    torch.manual_seed(0)
    args, used = tuple(a if isinstance(a, torch.Tensor) else torch.randn(a).to(dtype) for a in args), []

    def choose(kernel):
        c = parse_contraction(kernel)
        found = generator.candidates(kernel, c, TARGET) if c is not None and schedule is None else []
        if c is None or not (schedule or found):
            return elementwise.choose(kernel, TARGET)
        used.append(schedule or min(found, key=lambda item: item[0])[1])
        return used[-1]

    model = SimulatedModel(function, args, choose=choose)
    verdict = check(model, function, args)
    assert used and verdict.right, f"{used}\n{verdict}"
    return used[0]
