"""Whether what is reduced along the first dimension is one kernel with what follows, as was timed: where rows lie side by side in whole vectors."""

import pytest
import torch
from checks import scheduled


def norm(x):
    return (x - x.mean(0)) * torch.rsqrt(x.var(0, unbiased=False) + 1e-5)


@pytest.mark.parametrize("columns, dtype, one", [
    (16384, torch.bfloat16, True), (16386, torch.bfloat16, False), (16388, torch.bfloat16, False), (16384, torch.float32, True), (16386, torch.float32, False),
], ids=str)
def test_one_kernel_for_whole_vectors(columns, dtype, one):
    text = str(scheduled(norm, (torch.empty(2000, columns, dtype=dtype),)).stages["scheduled"])
    assert (text.count("inferno.schedule = ") == 1) == one, text


@pytest.mark.parametrize("columns", [16385, 16386, 100000])
def test_means_are_divided_where_they_are_summed(columns):
    text = str(scheduled(lambda x: x.mean(0), (torch.empty(600, columns),)).stages["scheduled"])
    assert text.count("inferno.schedule = ") == 1 and "generator = \"reductions\"" in text, text
