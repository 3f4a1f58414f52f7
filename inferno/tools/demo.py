"""``make demo``: a matmul and a ReLU become one kernel, before your eyes."""

import sys

import torch

import inferno
from inferno.runtime.check.comparison import compare
from inferno.tools.check import reference
from inferno.tools.versus import render, versus


class MatmulRelu(torch.nn.Module):
    """relu(x @ w): two kernels in eager PyTorch."""

    def __init__(self, k: int = 256, n: int = 256) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(k, n) / k**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.w)


def main() -> int:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, x = MatmulRelu().to(device).eval(), torch.randn(128, 256, device=device)
    compiled = inferno.compile(model, (x,))
    for title, stage in (("Before fusion: linalg, as imported", "linalg"), ("After fusion: one kernel function, and @main, which calls it", "fused")):
        print(f"\n=== {title} (ir({stage!r}))\n{compiled.ir(stage)}")
    print(f"=== The kernels (explain())\n{compiled.explain()}")
    with torch.no_grad():
        found = compare(compiled(x), model(x), reference(model, (x,)))
    print(f"=== Check against float64\n{found}\n")
    print(f"=== Time on {torch.cuda.get_device_name() if device == 'cuda' else 'the CPU'}")
    print(render({"relu(x @ w), 128x256x256 f32": versus(model, compiled, (x,), modes=("torch.compile",) if device == "cuda" else ())}))
    return 0 if found.right else 1


if __name__ == "__main__":
    sys.exit(main())
