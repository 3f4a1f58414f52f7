"""Products of a matrix and a vector whose few sums are long: reductions, right on the simulated GPU; what others take in less time is theirs."""

import pytest
import torch
from checks import check
from choices import generators
from universal_program import SimulatedModel

from inferno.schedule.reductions import long_sums, reductions
from inferno.target import find_target

TARGET = find_target("sm_90a")
bf16 = torch.bfloat16
MODELS = {
    "rows": lambda x, c: c @ x, "columns": lambda x, c: x.mT @ c, "rounded behind": lambda x, c: torch.relu(c @ x * 0.5),
    "a column of a tensor": lambda x, c: (x * c[:, None]).mean(0),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, bf16])
def test_right(name, dtype):
    torch.manual_seed(0)
    args, chosen = (torch.randn(6000, 64).to(dtype), torch.randn(6000).to(dtype)), []

    def choose(kernel):
        chosen.append(long_sums.choose(kernel, TARGET))
        return chosen[-1]

    found = check(SimulatedModel(MODELS[name], args, choose=choose), MODELS[name], args)
    assert found.right, str(found)
    assert len(chosen) == 1 and chosen[0].chunks > 1


@pytest.mark.parametrize("sizes, dtype, generator", [
    ((65536, 64), bf16, "reductions"), ((1 << 20, 16), torch.float32, "reductions"), ((4096, 4096), bf16, "wgmma"), ((512, 4096), bf16, "wgmma"),
    ((4096, 4096), torch.float32, "vectors"),
])
def test_what_is_chosen(sizes, dtype, generator):
    args = torch.empty(sizes, dtype=dtype), torch.empty(sizes[0], dtype=dtype)
    assert generators(MODELS["rows"], args)[0] == generator


def test_products_with_several_vectors_are_products():
    args = torch.empty(9585, 64, dtype=bf16), torch.empty(9585, 64, dtype=bf16)
    assert generators(lambda x, y: x.mT @ y, args)[0] != "reductions"


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("dtype", [torch.float16, bf16])
def test_sums_of_scaled_rows_lose_no_bits(dtype):
    """However short they are; a product of matrices is one."""
    torch.manual_seed(0)
    args = torch.randn(700, 64).to(dtype), torch.randn(700).to(dtype)
    model = lambda x, s: (x.float() * s.float()[:, None]).sum(0)  # noqa: E731
    simulated = SimulatedModel(model, args, choose=lambda k: reductions.choose(k, TARGET))
    exact = (args[0].double() * args[1].double()[:, None]).sum(0)
    assert (simulated(*args).double() - exact).norm() <= torch.finfo(torch.float32).eps * exact.norm()
    assert generators(model, args)[0] == "reductions"
    assert generators(MODELS["rows"], args)[0] != "reductions"
