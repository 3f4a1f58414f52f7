"""Time float32 products with frozen weights: ``python -m benchmarks.frozen [SIZE ...]``, on a GPU.

relu(x @ w) of square matrices, both layouts of w: eager, compiled, and compiled with freeze=True; device time, L2 cold and warm, and
the error against float64 next to eager's.
"""

import sys

import torch
from torch import nn

import inferno
from benchmarks import require_gpu
from inferno.runtime.check.comparison import compare
from inferno.tools.check import reference
from inferno.tools.timing import device_times

SIZES = (512, 1024, 2048, 4096, 8192)


class Product(nn.Module):
    def __init__(self, size: int, linear: bool) -> None:
        super().__init__()
        self.w, self.linear = nn.Parameter(torch.randn(size, size, device="cuda") / size**0.5), linear

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ (self.w.t() if self.linear else self.w))


def measure(size: int, linear: bool) -> str:
    """One line of the table."""
    model, x = Product(size, linear), torch.randn(size, size, device="cuda")
    versions = {"eager": lambda: model(x)}
    compiled = {name: inferno.compile(model, (x,), freeze=name == "frozen") for name in ("plain", "frozen")}
    versions.update({name: lambda c=c: c(x) for name, c in compiled.items()})
    with torch.no_grad():
        expected, eager = reference(model, (x,)), model(x)
        found = {name: compare(c(x), eager, expected) for name, c in compiled.items()}
        cold, warm = device_times(versions, cold=True), device_times(versions)
    ratios = " ".join(f"{n} {cold[n]:.1f}/{warm[n]:.1f} us ({cold['eager'] / cold[n]:.2f}/{warm['eager'] / warm[n]:.2f})" for n in compiled if n in warm)
    errors = " ".join(f"{n} {f.error:.1e} {'right' if f.right else 'WRONG'}" for n, f in found.items())
    row = compiled["frozen"].explain().rows[0]
    layout = "[n, k]" if linear else "[k, n]"
    return (
        f"{size} {layout}: eager {cold['eager']:.1f}/{warm['eager']:.1f} us, {ratios}; errors: eager {found['plain'].eager_error:.1e} {errors}; "
        f"{row.generator} {row.schedule}"
    )


if __name__ == "__main__":
    require_gpu()
    torch.backends.cuda.matmul.allow_tf32 = False
    for size in [int(a) for a in sys.argv[1:]] or SIZES:
        for linear in (True, False):
            print(measure(size, linear), flush=True)
