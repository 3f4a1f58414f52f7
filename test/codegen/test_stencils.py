"""Neighbours in images with a border are read where they lie: the border is no tensor, and the numbers are eager's."""

import pytest
import torch
from checks import check
from choices import generators
from stencil_cases import CASES, MODES, arguments
from universal_program import SimulatedModel

import inferno
from inferno.schedule.maps import elementwise
from inferno.target import find_target

TARGET = find_target("sm_90a")


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_right(name, mode, dtype):
    model, args = CASES[name][0](mode), arguments(name, dtype)
    verdict = check(SimulatedModel(model, args, choose=lambda kernel: elementwise.choose(kernel, TARGET)), model, args)
    assert verdict.right, str(verdict)


@pytest.mark.covering
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["laplacian", "wave", "edges"])
def test_one_kernel(name, mode):
    assert generators(CASES[name][0](mode), arguments(name, torch.float32)) == ["elementwise"]


def test_products_read_a_border_that_is_made_once():
    """A contraction reads each of its factors many times."""
    def model(x, w):
        p = torch.nn.functional.pad(x, (1, 1, 1, 1))
        return torch.stack([p[i:i + 32, j:j + 32] @ w for i in range(3) for j in range(3)])

    report = inferno.compile(model, (torch.randn(32, 32), torch.randn(32, 16)), target="sm_90a", fallback=False).explain()
    assert sum(r.calls for r in report.rows if "pieces" in r.kernel) == 1
