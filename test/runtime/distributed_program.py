"""Several processes: a tensor-parallel Llama block, data parallelism and functional collectives under the backend.

    PYTHONPATH=test python test/runtime/distributed_program.py WORLD PORT DEVICE

On the CPU they are forks of one, which has imported what they need.  Exits with 0 if everything is right.  On GPUs it prints which stream the kernels and
the collectives of a compiled call were on.
"""

import copy
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import torch
import torch._inductor.debug
import torch._inductor.sizevars  # these two, as the first compile of each process would
import torch.distributed as dist
from stream_trace import assert_one_stream, read_trace, table
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import inferno
import inferno.runtime.compile
from inferno.runtime.region.backend import inferno as backend
from inferno.runtime.workers import pool as workers

F = nn.functional
_SIZE, _HEAD = 64, 16


class Block(nn.Module):
    """A layer of Llama: RMS norms, attention with rotary positions and grouped heads, a gated MLP.  The number of heads is the
    number that the projections give, so that a process may have a part of them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.RMSNorm(_SIZE), nn.RMSNorm(_SIZE)
        self.q, self.k, self.v = (nn.Linear(_SIZE, n, bias=False) for n in (_SIZE, _SIZE // 2, _SIZE // 2))
        self.o = nn.Linear(_SIZE, _SIZE, bias=False)
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((_SIZE, 128), (_SIZE, 128), (128, _SIZE)))

    def forward(self, x):
        y = self.first(x)
        q, k, v = (project(y).unflatten(-1, (-1, _HEAD)).transpose(1, 2) for project in (self.q, self.k, self.v))
        angles = torch.arange(x.shape[1], device=x.device)[:, None] / 100 ** (torch.arange(0, _HEAD, 2, device=x.device) / _HEAD)
        q, k = rotate(q, angles), rotate(k, angles)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def rotate(x, angles):
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def work(rank: int, world: int, port: int, kind: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    device = torch.device("cuda", rank) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo", rank=rank, world_size=world)
    try:
        torch.manual_seed(0)
        block, x = Block().to(device), torch.randn(2, 12, _SIZE).to(device)
        columns, rows = dict.fromkeys(("q", "k", "v", "gate", "up"), ColwiseParallel()), dict.fromkeys(("o", "down"), RowwiseParallel())
        parallel = parallelize_module(copy.deepcopy(block), init_device_mesh(kind, (world,)), {**columns, **rows})
        fast = torch.compile(parallel, backend=backend, options={"fallback": False})
        fast(x).square().sum().backward()
        block(x).square().sum().backward()
        torch.testing.assert_close(fast(x), block(x), rtol=1e-5, atol=1e-5)
        for ours, eagers in ((parallel.up, block.up), (parallel.q, block.q), (parallel.o, block.o)):
            torch.testing.assert_close(ours.weight.grad.full_tensor(), eagers.weight.grad, rtol=1e-4, atol=1e-4)
        text = "".join(region.text for _, region in _regions(fast))
        assert "all_reduce(" in text and inferno.stats().fallbacks == 0
        report = inferno.explain(fast, x)
        exchanges = [p for p in report.pieces if p.reason == "it exchanges data with other processes"]
        assert exchanges and all(0 < p.seconds < report.call for p in exchanges)
        if kind == "cuda":
            _check_streams(fast, x, rank)

        torch._dynamo.reset()
        small = nn.Sequential(nn.Linear(_SIZE, 8), nn.ReLU(), nn.Linear(8, 3)).to(device)
        mine = nn.parallel.DistributedDataParallel(copy.deepcopy(small))
        torch.compile(mine, backend=backend)(x + rank).square().sum().backward()
        sum(small(x + r).square().sum() for r in range(world)).backward()
        torch.testing.assert_close(mine.module[0].weight.grad * world, small[0].weight.grad, rtol=1e-4, atol=1e-4)

        torch._dynamo.reset()
        fast = torch.compile(_collectives, backend=backend)
        for ours, expected in zip(fast(x + rank), _collectives(x + rank), strict=True):
            torch.testing.assert_close(ours, expected)
        text = "".join(region.text for _, region in _regions(fast))
        assert text.count("_same") >= 4, "a collective is waited for"
    finally:
        dist.destroy_process_group()


def _check_streams(fast, x: torch.Tensor, rank: int) -> None:
    """A call on a stream of ours: two all-reduces, one behind the attention and one behind the MLP, among the kernels."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream), tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            fast(x)
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=activities) as profile:
            fast(x)
            torch.cuda.synchronize()
        profile.export_chrome_trace(str(Path(folder) / "trace.json"))
        traced = read_trace(Path(folder) / "trace.json")
    programs = [p for kind, region in _regions(fast) for p in region.programs if kind == "inference"]
    ours = {step.kernel.rpartition("::")[2] for p in programs for step in p.launch_plan().steps}
    if rank == 0:
        print(table(traced, ours))
    assert_one_stream(traced, ours, 2)


def _collectives(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    import torch.distributed._functional_collectives as collectives

    group = dist.group.WORLD
    most = collectives.all_reduce(x * 2, "max", group)
    every = collectives.all_gather_tensor(torch.relu(x), 0, group)
    first = collectives.broadcast(x * 3, 0, group)
    exchanged = collectives.all_to_all_single(torch.sin(x) * 2, None, None, group)
    return most + 1, every * 2, first - 1, exchanged * 2


def _regions(fast):
    from inferno.runtime.region.graphs import graphs_of

    return [region for graph in graphs_of(fast) for region in graph.regions]


def fork(*arguments) -> int:
    """The id of a process that does this work, and ends with 0 if it is done."""
    if child := os.fork():
        return child
    status = 1
    try:
        work(*arguments)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if workers._pool is not None:
            workers._pool.close()
        os._exit(status)


def begin(rank: int, world: int, port: int, kind: str) -> int:
    """The id of a process that does this work: on GPUs a new one, for what has been imported may have used CUDA, after which nothing forks."""
    if kind == "cpu":
        return fork(rank, world, port, kind)
    return subprocess.Popen([sys.executable, *sys.argv[:4], str(rank)]).pid


if __name__ == "__main__":
    _world, _port, _kind, *_rank = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
    if _rank:
        sys.exit(work(int(_rank[0]), _world, _port, _kind))
    sys.exit(any([os.waitpid(child, 0)[1] for child in [begin(rank, _world, _port, _kind) for rank in range(_world)]]))
