"""Whether what is reduced along the first dimension is one kernel with what follows, as was timed: where rows lie side by side in whole vectors."""

import pytest
import torch
from checks import scheduled


def norm(x):
    return (x - x.mean(0)) * torch.rsqrt(x.var(0, unbiased=False) + 1e-5)


@pytest.mark.covering
@pytest.mark.parametrize("columns, dtype, one", [
    (16384, torch.bfloat16, True), (16386, torch.bfloat16, False), (16388, torch.bfloat16, False), (16384, torch.float32, True), (16386, torch.float32, False),
], ids=str)
def test_one_kernel_for_whole_vectors(columns, dtype, one):
    text = str(scheduled(norm, (torch.empty(2000, columns, dtype=dtype),)).stages["scheduled"])
    assert (text.count("inferno.schedule = ") == 1) == one, text


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("columns", [16385, 16386, 100000])
def test_means_are_divided_where_they_are_summed(columns):
    text = str(scheduled(lambda x: x.mean(0), (torch.empty(600, columns),)).stages["scheduled"])
    assert text.count("inferno.schedule = ") == 1 and "generator = \"reductions\"" in text, text


@pytest.mark.covering(most=1)
@pytest.mark.parametrize("rows, columns, vector", [(5, 16512, 1), (12, 20000, 1), (5, 200000, 2), (5, 200001, 1), (3, 64, 1)])
def test_threads_have_short_columns_alone(rows, columns, vector):
    text = str(scheduled(lambda x: torch.softmax(x, 0), (torch.empty(rows, columns),)).stages["scheduled"])
    found = text[text.index("inferno.schedule = "):].split("}")[0]
    assert "across = 128 : i64" in found and "held = true" in found and f"vector = {vector} : i64" in found, found


def test_what_takes_long_to_compute_is_computed_once():
    """Where phases would take longer than memory to compute it anew; a softmax alone is no longer than that."""
    x = torch.empty(925, 22016, dtype=torch.float16)
    gated = str(scheduled(lambda x, y: torch.softmax(torch.nn.functional.silu(x) * y, 0), (x, x)).stages["scheduled"])
    plain = str(scheduled(lambda x: torch.softmax(x, 0), (x,)).stages["scheduled"])
    assert "held = true" in gated and "held = false" in plain and gated.count("inferno.schedule = ") == plain.count("inferno.schedule = ") == 1
