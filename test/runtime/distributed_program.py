"""One process of several: a tensor-parallel block, data parallelism and functional collectives under the backend.

    python distributed_program.py RANK world PORT DEVICE

Exits with 0 if everything is right.
"""

import copy
import os
import sys

import torch
import torch.distributed as dist
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def work(rank: int, world: int, port: int, kind: str) -> None:
    import inferno
    from inferno.runtime.region.backend import inferno as backend
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    device = torch.device("cuda", rank) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo", rank=rank, world_size=world)
    try:
        torch.manual_seed(0)
        block, x = Block().to(device), torch.randn(4, 16).to(device)
        parallel = parallelize_module(copy.deepcopy(block), init_device_mesh(kind, (world,)), {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fast = torch.compile(parallel, backend=backend, options={"fallback": False})
        fast(x).square().sum().backward()
        block(x).square().sum().backward()
        torch.testing.assert_close(fast(x), block(x), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(parallel.up.weight.grad.full_tensor(), block.up.weight.grad, rtol=1e-4, atol=1e-4)
        text = "".join(region.text for _, region in _regions(fast))
        assert "all_reduce(" in text and inferno.stats().fallbacks == 0

        torch._dynamo.reset()
        mine = nn.parallel.DistributedDataParallel(copy.deepcopy(block))
        torch.compile(mine, backend=backend)(x + rank).square().sum().backward()
        block.zero_grad()
        sum(block(x + r).square().sum() for r in range(world)).backward()
        torch.testing.assert_close(mine.module.up.weight.grad * world, block.up.weight.grad, rtol=1e-4, atol=1e-4)

        torch._dynamo.reset()
        gathered = torch.compile(_collectives, backend=backend)(x + rank)
        for ours, expected in zip(gathered, _collectives(x + rank)):
            torch.testing.assert_close(ours, expected)
    finally:
        dist.destroy_process_group()


def _collectives(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    import torch.distributed._functional_collectives as collectives

    group = dist.group.WORLD
    most = collectives.all_reduce(x * 2, "max", group)
    every = collectives.all_gather_tensor(torch.relu(x), 0, group)
    return most + 1, every * 2


def _regions(fast):
    from inferno.runtime.region.graphs import graphs_of

    return [region for graph in graphs_of(fast) for region in graph.regions]


if __name__ == "__main__":
    work(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
