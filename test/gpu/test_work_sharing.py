"""Contractions whose tiles' terms several blocks share against float64, bit for bit the same at each call: by clusters that share the
columns, too, by runs of steps (stream-K) and by parts, also with several streams and in CUDA graphs; and those that share tiles of the lhs."""

import pytest
import torch
from fixed_schedules import gelu, right
from on_gpu import on_hopper

from inferno.schedule.matmul.wgmma_schedule import Wgmma

pytestmark = on_hopper


def spread(m, n, split, consumers=2, stages=4, **knobs):
    return Wgmma(m, n, stages, consumers, persistent=False, split=split, spread=True, **knobs)


def stream(m, n, stages=4, consumers=2, **knobs):
    return Wgmma(m, n, stages, consumers, stream=True, **knobs)


@pytest.mark.parametrize("m, k, n, schedule", [
    (256, 2048, 512, spread(128, 256, 4)), (200, 1000, 520, spread(128, 96, 3)), (65, 2056, 1000, spread(128, 160, 7)),
    (137, 520, 264, spread(128, 256, 2)), (300, 1544, 1000, spread(256, 128, 5)), (9, 4096, 136, spread(64, 64, 7, 1, 8)),
])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_blocks_share_the_columns(m, k, n, schedule, dtype):
    right(schedule, gelu, (m, k), (n, k), (m, n), dtype=dtype)
    right(schedule, lambda x, w: torch.relu(x @ w), (m, k), (k, n), dtype=dtype)


@pytest.mark.parametrize("m, k, n, schedule", [
    (1800, 328, 2600, stream(128, 128)), (2048, 512, 4096, stream(128, 256)), (2050, 64, 3000, stream(256, 128)), (1700, 1000, 2504, stream(128, 160)),
    (9, 1000, 8712, stream(64, 64, 12, 1, lhs_rows=16)), (64, 520, 8456, stream(64, 64, 6, 1, chunks=2)),
])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_blocks_share_the_last_tiles(m, k, n, schedule, dtype):
    right(schedule, gelu, (m, k), (n, k), (m, n), dtype=dtype)
    if not schedule.lhs_rows:
        right(schedule, lambda x, w: torch.relu(x @ w), (m, k), (k, n), dtype=dtype)


@pytest.mark.parametrize("m, k, n, schedule", [
    (300, 520, 768, Wgmma(128, 96, 4, 2, cluster=2, across=True)), (1000, 264, 4096, Wgmma(128, 256, 4, 2, cluster=2, across=True)),
    (130, 1000, 1000, Wgmma(128, 64, 6, 2, cluster=4, across=True)), (2050, 136, 2048, Wgmma(128, 128, 5, 2, cluster=2, across=True, pingpong=True)),
])
def test_blocks_share_tiles_of_the_lhs(m, k, n, schedule):
    right(schedule, gelu, (m, k), (n, k), (m, n))
    right(schedule, lambda x, w: torch.relu(x @ w), (m, k), (k, n))


@pytest.mark.parametrize("m, k, n, schedule", [
    (128, 1000, 11008, stream(64, 128, 8, 1, swapped=True, registers=True)), (70, 264, 20000, stream(128, 72, 6, swapped=True, registers=True)),
    (300, 100, 9000, stream(64, 128, 6, 1, swapped=True, registers=True)), (128, 4096, 11008, stream(128, 128, 6, swapped=True, registers=True)),
    (100, 1100, 6000, stream(128, 104, 6, swapped=True, registers=True)),
])
def test_blocks_share_the_last_tiles_of_a_lhs_in_registers(m, k, n, schedule, tf32):
    right(schedule, lambda x, w: torch.relu(x @ w), (m, k), (k, n), dtype=torch.float32)


@pytest.mark.parametrize("schedule, sizes", [
    (stream(128, 128), (5, 600, 264, 1032)), (stream(128, 128, 6, parts=2, cluster=2), (2, 500, 1032, 520)), (stream(128, 64, 8, parts=3), (4, 130, 2056, 264)),
    (spread(128, 128, 2, sends=True), (3, 500, 1032, 520)),
])
def test_batches_share_terms(schedule, sizes):
    b, m, k, n = sizes
    right(schedule, torch.matmul, (b, m, k), (b, k, n))


@pytest.mark.parametrize("m, k, n, schedule", [
    (1024, 8192, 1024, spread(128, 128, 2, sends=True)), (200, 1000, 520, spread(128, 256, 4, stages=2, sends=True)),
    (137, 520, 264, spread(64, 64, 2, 1, 8, sends=True)),
    (100, 4096, 4096, spread(128, 64, 2, stages=8, sends=True, lhs_rows=104)), (384, 2056, 776, spread(128, 96, 3, stages=6, sends=True)),
    (100, 13824, 5120, stream(128, 128, 6, parts=3, lead=8, lhs_rows=104)), (512, 8192, 1024, stream(128, 96, 6, parts=3, lead=8)),
    (256, 5000, 4104, stream(128, 160, 5, parts=2, lead=8, cluster=2)), (300, 3000, 1000, stream(128, 192, parts=3, lead=8)),
    (2048, 11008, 512, stream(128, 128, 6, parts=2, lead=8, cluster=2, across=True)),
    (1024, 8192, 1024, stream(128, 128, 6, parts=2)), (1024, 8192, 1024, stream(128, 128, 6, parts=2, lead=8, cluster=2)),
    (500, 2000, 1000, stream(128, 128, 6, parts=4, cluster=2)), (256, 3000, 2048, stream(256, 128, parts=5, cluster=2, across=True)),
    (2000, 328, 5000, stream(128, 128, 6, cluster=2)),
])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_blocks_send_sums_and_leave_parts(m, k, n, schedule, dtype):
    right(schedule, gelu, (m, k), (n, k), (m, n), dtype=dtype)


@pytest.mark.parametrize("schedule", [spread(128, 64, 2, sends=True), stream(128, 64, parts=2, lead=2)])
def test_products_of_tf32_share_terms(schedule, tf32):
    right(schedule, lambda x, w, r: torch.relu(torch.nn.functional.linear(x, w) + r), (300, 2056), (520, 2056), (300, 520), dtype=torch.float32)


@pytest.mark.parametrize("schedule", [stream(128, 128), stream(128, 128, 6, parts=2, cluster=2)], ids=["runs", "parts"])
def test_streams_and_graphs_share_no_flags(schedule):
    sizes = (1800, 2600) if not schedule.parts else (1024, 1024)
    compiled, args = right(schedule, gelu, (sizes[0], 1000), (sizes[1], 1000), sizes)
    expected, streams = compiled(*args), [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    results = []
    for i in range(30):
        with torch.cuda.stream(streams[i % 3]):
            results.append(compiled(*args))
    torch.cuda.synchronize()
    assert all(torch.equal(r, expected) for r in results)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first, second = compiled(*args), compiled(*args)
    for _ in range(5):
        first.zero_(), second.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(first, expected) and torch.equal(second, expected)
