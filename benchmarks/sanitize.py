"""One call of every generator's kernels, small enough for compute-sanitizer:

    compute-sanitizer --target-processes application-only --tool memcheck python -m benchmarks.sanitize
    compute-sanitizer --target-processes application-only --tool racecheck python -m benchmarks.sanitize

With names of generators behind it, only theirs.  Exits with 1 if a case is wrong or was made by another generator than the one named.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

import inferno
from inferno.tools.check import compare, reference

F = torch.nn.functional


@dataclass(frozen=True)
class Case:
    generator: str
    name: str
    function: Callable
    shapes: tuple[tuple[int, ...], ...]
    dtype: torch.dtype = torch.float32


CASES = (
    Case("wgmma", "relu(x @ w)", lambda x, w: torch.relu(x @ w), ((256, 192), (192, 320)), torch.bfloat16),
    Case("wgmma", "gelu(linear) + residual", lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r, ((200, 136), (264, 136), (264,), (200, 264)), torch.bfloat16),
    Case("wgmma", "ragged", lambda x, w: x @ w, ((77, 51), (51, 33)), torch.float16),
    Case("wgmma", "batched", torch.matmul, ((3, 70, 64), (3, 64, 80)), torch.bfloat16),
    Case("wgmma", "several tiles a block", lambda x, w: x @ w, ((2048, 64), (64, 2048)), torch.bfloat16),
    Case("simt", "small", lambda x, w: torch.relu(x @ w), ((64, 128), (128, 256))),
    Case("simt", "double", lambda x, w: torch.relu(x @ w), ((260, 300), (300, 196)), torch.float64),
    Case("bf16x6", "relu(x @ w)", lambda x, w: torch.relu(x @ w), ((520, 300), (300, 392))),
    Case("bf16x6", "a cluster, turned operands", lambda x, w: torch.relu(x.t() @ w.t()), ((1024, 260), (256, 1024))),
    Case("bf16x6", "a scaled operand, residual", lambda x, w, s, r: x @ (w * s) + r, ((640, 260), (260, 392), (260, 1), (640, 392))),
    Case("bf16x6", "several tiles a block", lambda x, w: x @ w, ((2048, 128), (128, 2304))),
    Case("bf16x6", "several tiles a block, an odd number of steps", lambda x, w: x @ w, ((2048, 160), (160, 2304))),
    Case("bf16x6", "infinite sums", lambda x, w: torch.where(x > 3, torch.inf, x) @ w, ((520, 300), (300, 392))),
    Case("simt", "batched", torch.matmul, ((3, 33, 17), (3, 17, 35))),
    Case("elementwise", "multiply, add, sigmoid", lambda x, y, z: torch.sigmoid(x * y + z), ((333, 77), (333, 77), (77,))),
    Case("elementwise", "transpose", lambda x: x.t().contiguous() * 2, ((130, 70),)),
    Case("universal", "row sums", lambda x: x.sum(1), ((100, 3000),)),
    Case("universal", "sum of everything", lambda x: x.sum(), ((300, 1000),)),
    Case("universal", "cumsum", lambda x: x.cumsum(1), ((9, 300),)),
    Case("universal", "sort", lambda x: torch.sort(x, 1).values, ((7, 90),)),
    Case("universal", "sums that meet in memory", lambda x: x[:9].index_add(0, torch.arange(300, device=x.device) % 9, x), ((300, 40),)),
    Case("universal", "convolution", lambda x, w: F.conv2d(x, w, padding=1), ((2, 3, 17, 17), (4, 3, 3, 3))),
    Case("universal", "maximum pooling", lambda x: F.max_pool2d(x, 2), ((2, 3, 16, 16),)),
)


def _random(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Random normal numbers; whole ones in float64, whose sums are exact in the reference too."""
    values = torch.randn(shape, device="cuda", dtype=dtype)
    return (values * 8).round() if dtype is torch.float64 else values


def main(generators: list[str]) -> int:
    torch.manual_seed(0)
    failed = 0
    for case in (c for c in CASES if not generators or c.generator in generators):
        inputs = tuple(_random(s, case.dtype) for s in case.shapes)
        compiled = inferno.compile(case.function, inputs)
        found = compare(compiled(*inputs), case.function(*inputs), reference(case.function, inputs))
        made_by = {row.generator for row in compiled.explain().rows}
        failed += not found.right or case.generator not in made_by
        print(f"{case.generator}: {case.name}: {found}; made by {', '.join(sorted(made_by))}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
