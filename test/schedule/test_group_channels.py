"""Rows that a few neighbours are of, by channels: for which group norms, and by how many vectors and blocks."""

import pytest
import torch

from inferno.capture import capture
from inferno.mlir import idle_context, ir
from inferno.passes.manager import run_pipeline
from inferno.passes.programs import UNMEASURED
from inferno.runtime.workers import jobs
from inferno.schedule.assign import kernels
from inferno.schedule.rows import columns
from inferno.target import find_target

TARGET = find_target("sm_90a")


def group_norm(x):
    d = x - x.mean((1, 3), keepdim=True, dtype=torch.float32)
    return (d * torch.rsqrt((d * d).mean((1, 3), keepdim=True) + 1e-5)).to(x.dtype)


def parsed(shape, dtype, unmeasured=False):
    """The schedule and what the kernel computes, None where it is no such kernel."""
    linalg, _ = jobs.lower_to_linalg(capture(group_norm, (torch.empty(shape, dtype=dtype, device="meta"),)).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        if unmeasured:
            module.operation.attributes[UNMEASURED] = ir.UnitAttr.get(module.context)
        run_pipeline(module, "inferno-fuse,fuse-reductions{target=sm_90a always=1}")
        found = [columns.read(k, TARGET) for k in kernels(module)]
        return [(c.together, c.count, c.width, columns.pick(c, TARGET)) for c in found if c is not None]


@pytest.mark.covering(most=3)
@pytest.mark.parametrize("shape, dtype, across, threads", [
    ((8, 4096, 32, 8), torch.bfloat16, 8, 512),
    ((64, 4096, 32, 8), torch.float32, 8, 512),
    ((1, 4096, 32, 16), torch.float32, 4, 512),  # 128 bytes would leave a multiprocessor one block
    ((16, 784, 32, 4), torch.float32, 4, 256),
    ((1, 65536, 32, 4), torch.bfloat16, 1, 512),
    ((2, 4096, 32, 10), torch.bfloat16, 5, 320),
    ((2, 4096, 32, 10), torch.float32, 10, 480),  # 160 bytes, which are whole sectors
    ((2, 4096, 32, 30), torch.bfloat16, 15, 480),
])
def test_groups_side_by_side(shape, dtype, across, threads):
    ((together, count, width, s),) = parsed(shape, dtype)
    images, points, groups, channels = shape
    assert (together, count, width) == (channels, images * groups * channels, points)
    assert (s.across, s.threads) == (across, threads)
    assert across * s.vector % channels == 0


@pytest.mark.parametrize("shape, dtype", [
    ((1, 1 << 18, 32, 4), torch.float32),  # more than a cluster can keep
    ((1, 256, 4, 8), torch.float32),  # few blocks
])
def test_what_stays(shape, dtype):
    assert parsed(shape, dtype, unmeasured=True) == []


def test_few_points_only_where_it_is_asked_for():
    assert [len(parsed((2, 256, 32, 40), torch.bfloat16, unmeasured=u)) for u in (False, True)] == [0, 1]


def transposed(f, shape, dtype):
    """Schedules of what is written one row behind the other."""
    x = torch.empty(shape, dtype=dtype, device="meta").contiguous(memory_format=torch.channels_last)
    linalg, _ = jobs.lower_to_linalg(capture(lambda x: f(x).contiguous(), (x,)).text)
    with idle_context(), ir.Location.unknown():
        module = ir.Module.parse(linalg)
        run_pipeline(module, "inferno-fuse,fuse-reductions{target=sm_90a}")
        found = [columns.read(k, TARGET) for k in kernels(module)]
        return [columns.pick(c, TARGET) for c in found if c is not None]


@pytest.mark.covering
@pytest.mark.parametrize("grouped, shape, dtype, expected", [
    (True, (64, 256, 64, 64), torch.float32, (8, 8, 4, 4)), (True, (64, 256, 64, 64), torch.bfloat16, (2, 2, 4, 4)),
    (False, (64, 256, 64, 64), torch.float32, (8, 8, 4, 4)), (False, (64, 256, 64, 64), torch.bfloat16, (2, 2, 4, 4)),
    (False, (64, 256, 63, 63), torch.bfloat16, (2, 2, 4, 1)),  # an odd number of points has no runs
])
def test_runs_of_points(grouped, shape, dtype, expected):
    (s,) = transposed((lambda x: torch.nn.functional.group_norm(x, 32)) if grouped else torch.nn.functional.instance_norm, shape, dtype)
    assert (s.across, s.cluster, s.unroll, s.run) == expected
