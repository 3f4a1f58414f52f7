"""Matmuls of groups of rows: what is compiled is right, and where torch's library is faster it has them."""

import pytest
import torch

import inferno
from inferno.capture.library_grouped import is_faster

GROUPED = [torch._grouped_mm] if hasattr(torch, "_grouped_mm") else []


def experts(x, w, ends):
    return torch.nn.functional.silu(torch._grouped_mm(x, w, offs=ends))


def one_by_one(x, w, ends):
    found, begin = torch.zeros(x.shape[0], w.shape[2], dtype=torch.float64), 0
    for group, end in enumerate(ends.tolist()):
        found[begin:end] = x[begin:end].double() @ w[group].double()
        begin = end
    return found


def meta(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype, device="meta")


def reasons(rows, terms, columns, groups, dtype=torch.bfloat16, target="sm_90a", **options):
    args = meta(rows, terms, dtype=dtype), meta(groups, columns, terms, dtype=dtype).transpose(1, 2), meta(groups, dtype=torch.int32)
    return [p.reason for p in inferno.compile(experts, args, target=target, **options).explain().pieces if "torch's library" in p.reason]


@pytest.mark.covering(most=2)
@pytest.mark.skipif(not GROUPED, reason="this torch has no groups")
@pytest.mark.parametrize("rows, terms, columns, groups, theirs", [
    (512, 1024, 7168, 8, False), (512, 3584, 1024, 8, False), (4096, 3584, 1024, 8, False), (16, 1024, 7168, 8, False), (2048, 2048, 1536, 64, False),
    (2048, 1024, 512, 2, False), (16384, 2048, 1536, 64, True), (16384, 768, 2048, 64, True), (20000, 1024, 7168, 8, True), (4096, 1024, 7164, 8, True),
])
def test_library_on_a_gpu(rows, terms, columns, groups, theirs):
    assert bool(reasons(rows, terms, columns, groups)) == theirs


@pytest.mark.covering(most=1)
@pytest.mark.skipif(not GROUPED, reason="this torch has no groups")
@pytest.mark.parametrize("target", ["sm_80", "sm_100"])
def test_library_on_other_gpus(target):
    """Which have no kernel for groups."""
    assert reasons(520, 1024, 7168, 8, target=target) and not reasons(520, 3584, 1024, 8, target=target)


@pytest.mark.skipif(not GROUPED, reason="this torch has no groups")
def test_another_gpu_in_the_same_process():
    """What the operation was decomposed to for Hopper is not what another GPU gets, and the other way round."""
    for target in ("sm_90a", "sm_90a", "sm_80", "sm_90a"):  # (the first may load what makes torch take all apart anew)
        assert bool(reasons(528, 1024, 7168, 8, target=target)) == (target == "sm_80")


@pytest.mark.skipif(not GROUPED, reason="this torch has no groups")
def test_without_fallback_all_is_compiled():
    assert not reasons(512, 1024, 7168, 8, fallback=False)


@pytest.mark.parametrize("rows, groups, dtype, theirs", [
    (256, 64, torch.float32, True), (128, 16, torch.float32, True), (48, 4, torch.float32, False), (1, 64, torch.float32, False),
    (256, 64, torch.bfloat16, True), (24, 4, torch.bfloat16, True), (1, 64, torch.bfloat16, False),
], ids=str)
def test_library_on_the_cpu(rows, groups, dtype, theirs):
    assert is_faster(torch.empty(rows, 128, dtype=dtype), torch.empty(groups, 128, 64, dtype=dtype)) == theirs


@pytest.mark.skipif(not GROUPED, reason="this torch has no groups")
def test_the_library_runs_on_the_cpu():
    """All matrices with all rows took 1000 times as long."""
    x, w = torch.randn(256, 128, dtype=torch.bfloat16), torch.randn(64, 128, 64, dtype=torch.bfloat16)
    ends = torch.linspace(4, 256, 64).int()
    compiled = inferno.compile(experts, (x, w, ends), target="cpu")
    assert ["torch's library" in p.reason for p in compiled.explain().pieces].count(True) == 1
    expected = torch.nn.functional.silu(one_by_one(x, w, ends))
    torch.testing.assert_close(compiled(x, w, ends).double(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.skipif(not GROUPED, reason="this torch has no groups")
@pytest.mark.parametrize("rows, ends", [(12, [0, 5, 5, 6, 12]), (7, [7, 7, 7]), (9, [1, 2, 2, 4]), (2, [0, 0, 1, 1, 1, 1, 2, 2])])
def test_every_group(rows, ends):
    """Empty ones, of one row, and rows behind the last one."""
    x, w = torch.randn(rows, 16, dtype=torch.bfloat16), torch.randn(len(ends), 16, 24, dtype=torch.bfloat16)
    offs = torch.tensor(ends, dtype=torch.int32)
    found = inferno.compile(lambda x, w, offs: torch._grouped_mm(x, w, offs=offs), (x, w, offs))(x, w, offs)
    expected = one_by_one(x, w, offs)
    torch.testing.assert_close(found.double()[:ends[-1]], expected[:ends[-1]], rtol=1e-2, atol=1e-2)
