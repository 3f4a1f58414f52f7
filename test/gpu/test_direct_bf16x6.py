"""Small float32 products by mma.sync from registers on a GPU: every kind of tile, sizes, layouts and numbers that are hard to split, against float64."""

import pytest
import torch
from checks import check
from contraction_cases import not_finite
from fixed_schedules import TARGET, compile_universal, right
from on_gpu import on_hopper

from inferno.schedule.maps import elementwise
from inferno.schedule.matmul.parser import parse_contraction
from inferno.schedule.matmul.direct_bf16x6 import DirectBf16x6

pytestmark = [
    on_hopper,
    pytest.mark.usefixtures("exact_float32"),
]


@pytest.mark.parametrize("m, k, n, schedule", [
    (256, 512, 256, DirectBf16x6(32, 16, 8, 4)), (192, 384, 320, DirectBf16x6(16, 16, 8, 2)), (100, 700, 300, DirectBf16x6(32, 32, 8, 2)),
    (35, 333, 51, DirectBf16x6(16, 16, 16, 1)), (512, 512, 512, DirectBf16x6(64, 32, 8, 1)), (320, 256, 640, DirectBf16x6(16, 32, 8, 2)),
    (48, 4096, 100, DirectBf16x6(16, 8, 16, 1)), (130, 100, 70, DirectBf16x6(32, 16, 4, 1)),
])
@pytest.mark.parametrize("function, transposed", [
    (lambda x, w: torch.relu(x @ w), False), (lambda x, w: torch.nn.functional.gelu(torch.nn.functional.linear(x, w)), True),
], ids=["x @ w", "linear"])
def test_numbers(m, k, n, schedule, function, transposed):
    right(schedule, function, (m, k), (n, k) if transposed else (k, n), dtype=torch.float32)


@pytest.mark.parametrize("make", [
    lambda *shape: torch.rand(shape, device="cuda"), lambda *shape: torch.randn(shape, device="cuda") * 2.0 ** torch.randint(-20, 20, shape, device="cuda"),
], ids=["positive", "of all sizes"])
def test_numbers_of_one_sign_and_of_all_sizes(make):
    fixed(make(200, 2048), make(2048, 120))


def test_infinite_numbers():
    fixed(*not_finite(lambda *shape: torch.randn(shape, device="cuda"), 100, 60, 300))


def fixed(*args):
    function = torch.matmul

    def choose(kernel):
        return elementwise.choose(kernel, TARGET) if parse_contraction(kernel) is None else DirectBf16x6(32, 16, 8, 2)

    verdict = check(compile_universal(function, args, torch.device("cuda"), TARGET.name, choose), function, args)
    assert verdict.right, str(verdict)
