"""Dimensions that are grouped anew: as many kernels as fusion promises, and right."""

import pytest
import torch
from checks import check, scheduled
from universal_program import SimulatedModel

from inferno.passes.refine_reshapes import common_parts


@pytest.mark.parametrize("first, second, parts", [
    ((256, 8), (16, 128), [16, 16, 8]), ((16, 128), (256, 8), [16, 16, 8]), ((4, 6), (4, 6), [4, 6]), ((24,), (2, 3, 4), [2, 3, 4]),
    ((2, 30), (20, 3), [2, 10, 3]), ((6, 4), (8, 3), None), ((4, 1, 6), (8, 3), None), ((0, 4), (4, 0), None), ((), (), None),
])
def test_common_parts(first, second, parts):
    assert common_parts(first, second) == parts


def unpacked(words, scales):
    """Numbers of 4 bits, as many of which have a scale as no whole words are, or as some words."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    numbers = ((words[:, None] >> shifts[:, None]) & 15).reshape(scales.shape[0], -1, words.shape[1])
    return (numbers - 8).to(scales.dtype) * scales[:, None]


@pytest.mark.covering
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("words, scales, kernels", [(24, 6, 1), (6, 24, 1), (6, 12, 1), (6, 16, 2), (9, 6, 2), (3, 2, 2)])
def test_unpacked(words, scales, kernels, dtype):
    torch.manual_seed(0)
    args = torch.randint(-2**31, 2**31, (words, 10), dtype=torch.int32), torch.randn(scales, 10).to(dtype)
    assert scheduled(unpacked, args, last="fused").stages["fused"].count(" call @") == kernels
    found = check(SimulatedModel(unpacked, args, expand=True), unpacked, args)
    assert found.right, str(found)
