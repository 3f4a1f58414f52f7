"""Training in bf16 beside eager and Inductor: the kernels alone of a forward, a loss and a backward, as a CUDA graph replays them.

    python -m benchmarks.training_graphs [--out FILE] [MODEL ...]

Random weights and inputs; every version has the same, and its gradients are compared with float64's.  Times are the least of several runs of
replays, taken in turns, in microseconds.
"""

import argparse
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import require_gpu
from inferno.runtime.check.comparison import compare
from inferno.runtime.region.backend import inferno as backend

F = nn.functional
_RUNS, _REPLAYS = 7, 10


class _LlamaLayer(nn.Module):
    """Attention and a SwiGLU, each behind an RMSNorm, of ``width`` and ``heads``."""

    def __init__(self, width: int = 1024, heads: int = 16, inner: int = 2816) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.projections, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        b, n, width = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.projections(self.first(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, width))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def _encoder_layer() -> nn.Module:
    return nn.TransformerEncoderLayer(768, 12, 3072, 0.0, activation="gelu", batch_first=True)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024), nn.ReLU(), nn.Linear(1024, 512))


def _convolutions(count: int, norm: bool) -> nn.Module:
    layers = [[nn.Conv2d(64, 64, 3, padding=1, bias=not norm), *([nn.BatchNorm2d(64)] if norm else []), nn.ReLU()] for _ in range(count)]
    return nn.Sequential(*(m for layer in layers for m in layer))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "2 Llama layers of 1024, 4x1024": (lambda: nn.Sequential(_LlamaLayer(), _LlamaLayer()), (4, 1024, 1024)),
    "2 encoder layers of 768, 32x128": (lambda: nn.Sequential(_encoder_layer(), _encoder_layer()), (32, 128, 768)),
    "MLP 1024-4096-1024-512, 4096 rows": (_mlp, (4096, 1024)),
    "4 convolutions 3x3 and ReLU, 16x64x64x64": (lambda: _convolutions(4, False), (16, 64, 64, 64)),
    "3 convolutions with batch norm, 32x64x56x56": (lambda: _convolutions(3, True), (32, 64, 56, 56)),
}


def run(name: str) -> dict[str, Any]:
    """Microseconds of each version, and whether Inferno's gradients are as near to float64's as eager's."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    module = make().cuda().bfloat16()
    x = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    double = copy.deepcopy(module).double()
    exact = _gradients(double, double, x.double())
    graphs, found = {}, {}
    for version in ("inferno", "eager", "inductor"):
        torch._dynamo.reset()
        mine = copy.deepcopy(module)
        call = mine if version == "eager" else torch.compile(mine, backend=backend if version == "inferno" else "inductor")
        found[version] = _gradients(mine, call, x)
        graphs[version] = _capture(mine, call, x), mine, call
    verdict = compare(found["inferno"], found["eager"], exact)
    times = dict.fromkeys(graphs, float("inf"))
    for _ in range(_RUNS):
        for version, (graph, *_) in graphs.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            graph.replay()
            begin.record()
            for _ in range(_REPLAYS):
                graph.replay()
            end.record()
            torch.cuda.synchronize()
            times[version] = min(times[version], begin.elapsed_time(end) * 1e3 / _REPLAYS)
    return {**times, "right": verdict.right, "check": str(verdict)}


def _step(call: Callable, x: Tensor) -> None:
    call(x).float().square().mean().backward()


def _gradients(module: nn.Module, call: Callable, x: Tensor) -> list[Tensor]:
    module.zero_grad(set_to_none=True)
    _step(call, x)
    return [p.grad.clone() for p in module.parameters()]


def _capture(module: nn.Module, call: Callable, x: Tensor) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            module.zero_grad(set_to_none=True)
            _step(call, x)
    torch.cuda.current_stream().wait_stream(stream)
    module.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _step(call, x)
    return graph


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="those whose names hold one of these texts (default: all)")
    parser.add_argument("--out", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    require_gpu()
    found = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name in [n for n in MODELS if not arguments.models or any(text in n for text in arguments.models)]:
        found[name] = result = run(name)
        said = ", ".join(f"{version} {time:.0f} us" for version, time in result.items() if isinstance(time, float))
        print(f"{name}: {'right' if result['right'] else 'WRONG: ' + result['check']}; {said}", flush=True)
        if arguments.out:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(found, indent=1))
    return int(not all(r["right"] for r in found.values() if isinstance(r, dict)))


if __name__ == "__main__":
    raise SystemExit(main())
