"""The suites of contractions: ``matmul`` (squares, small, batched) and ``linears`` (the layers of known models).

A case of these suites says which rate limits it, so that its share of the limit can be told, and whether it is of the core:
the cases that every run times, and that alone are tuned by torch.compile.
"""

from dataclasses import fields
from itertools import product

import torch

from benchmarks.case import Case
from inferno.options import Options

F = torch.nn.functional
_ALL = ("torch.compile", "max-autotune")
_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


class MatmulRelu(torch.nn.Module):
    """relu(x @ w); the weight is a parameter of shape (K, N), or of (N, K) where ``transposed``."""

    def __init__(self, k: int, n: int, dtype: torch.dtype, device: torch.device, transposed: bool = False) -> None:
        super().__init__()
        self.transposed = transposed
        self.w = torch.nn.Parameter(torch.randn((n, k) if transposed else (k, n), dtype=dtype, device=device) / k**0.5, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(F.linear(x, self.w) if self.transposed else x @ self.w)


class LinearGelu(torch.nn.Module):
    """gelu(linear(x)), with a bias."""

    def __init__(self, k: int, n: int, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(k, n, device=device, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.linear(x))


class SwiGlu(torch.nn.Module):
    """silu(gate(x)) * up(x), without biases."""

    def __init__(self, k: int, n: int, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(k, n, bias=False, device=device, dtype=dtype) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.gate(x)) * self.up(x)


class LinearResidual(torch.nn.Module):
    """linear(x) + residual, without a bias."""

    def __init__(self, k: int, n: int, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(k, n, bias=False, device=device, dtype=dtype)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + residual


# The (K, N) of their linear layers.
LAYERS = {
    "llama-7b": ((4096, 4096), (4096, 11008), (11008, 4096)),
    "llama-13b": ((5120, 5120), (5120, 13824), (13824, 5120)),
    "llama-70b": ((8192, 8192), (8192, 1024), (8192, 28672), (28672, 8192)),
    "qwen2.5-7b": ((3584, 3584), (3584, 512), (3584, 18944), (18944, 3584)),
    "bert": ((768, 768), (768, 3072), (3072, 768)),
    "gpt2": ((768, 2304), (768, 50257)),
}
ROWS = (1, 4, 16, 64, 256, 1024, 2048, 8192)
_FORMS = {"gelu(linear)": LinearGelu, "silu(linear) * linear": SwiGlu, "linear + residual": LinearResidual}
_CORE = 13  # every so many of the linears, which is prime to the numbers of forms and of rows: all of them occur


def _linears() -> list[Case]:
    cases, layers = [], list(dict.fromkeys(layer for known in LAYERS.values() for layer in known))
    for number, ((k, n), m, form) in enumerate(product(layers, ROWS, _FORMS)):
        def make(device: torch.device, k=k, n=n, m=m, form=form) -> tuple:
            shapes = [(m, k), (m, n)] if form == "linear + residual" else [(m, k)]
            return _FORMS[form](k, n, torch.bfloat16, device), _random(device, torch.bfloat16, *shapes), {}

        core = number % _CORE == 0
        cases.append(Case(f"{form} {m}x{k}x{n} bf16", make, _ALL if core else _ALL[:1], core=core, rate="bf16", group=f"linears, {m} rows"))
    return cases


def _random(device: torch.device, dtype: torch.dtype, *shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(shape, dtype=dtype, device=device) for shape in shapes)


def _relu(m: int, k: int, n: int, type_: str, core: bool, group: str, *, transposed: bool = False, freeze: bool = False, high: bool = False) -> Case:
    def make(device: torch.device) -> tuple:
        dtype = _DTYPES[type_]
        return MatmulRelu(k, n, dtype, device, transposed), _random(device, dtype, (m, k)), {}

    name = f"relu({'linear' if transposed else 'x @ w'}) {m}x{k}x{n} {type_}{' high' if high else ''}{' frozen' if freeze else ''}"
    return Case(
        name, make, _ALL if core else _ALL[:1], core=core, rate="tf32" if high else type_, group=group,
        precision="high" if high else "highest", options={"freeze": True} if freeze else {},
    )


def _batched(batch: int, m: int, k: int, n: int, type_: str, core: bool, transposed: bool) -> Case:
    def make(device: torch.device) -> tuple:
        x, y = _random(device, _DTYPES[type_], (batch, m, k), (batch, n, k) if transposed else (batch, k, n))
        return _scores if transposed else torch.bmm, (x, y), {}

    name = f"bmm{'(x, y.mT)' if transposed else '(x, y)'} {batch}x{m}x{k}x{n} {type_}"
    return Case(name, make, _ALL if core else _ALL[:1], core=core, rate=type_, group=f"bmm {type_}")


def _scores(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.bmm(x, y.mT)


def _matmul() -> list[Case]:
    cases = []
    for size in (256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384):
        power = size & (size - 1) == 0
        cases.append(_relu(size, size, size, "bf16", power, "bf16 squares"))
        cases.append(_relu(size, size, size, "bf16", False, "bf16 squares", transposed=True))
        cases.append(_relu(size, size, size, "f16", False, "f16 squares"))
    for size, transposed in product((512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192), (False, True)):
        core = size & (size - 1) == 0 and size <= 4096
        cases.append(_relu(size, size, size, "f32", core, "f32 squares", transposed=transposed))
        if "freeze" in (f.name for f in fields(Options)):
            cases.append(_relu(size, size, size, "f32", core and not transposed, "f32 squares, frozen", transposed=transposed, freeze=True))
        cases.append(_relu(size, size, size, "f32", core and transposed, "f32 high", transposed=transposed, high=True))
    for (m, k, n), type_, transposed in product(((64, 128, 256), (128, 256, 512), (256, 512, 256)), ("f32", "bf16"), (False, True)):
        cases.append(_relu(m, k, n, type_, not transposed, f"{type_} small", transposed=transposed))
    for m, k, n in ((1000, 1000, 1000), (777, 1024, 520), (100, 8192, 100), (65, 1023, 129), (2048, 64, 2048), (8192, 256, 32), (4000, 4104, 10000)):
        for type_ in ("f32", "bf16"):
            cases.append(_relu(m, k, n, type_, False, f"{type_} odd", transposed=m % 2 == 0))
    batches = (
        (8, 2048, 128, 2048), (8, 2048, 2048, 128), (32, 512, 64, 512), (32, 512, 512, 64), (64, 128, 128, 128), (256, 64, 128, 64), (256, 64, 64, 2048),
        (8, 256, 1024, 2048), (8, 2048, 1024, 1024), (64, 64, 2048, 1024), (16, 1024, 64, 1024), (96, 200, 64, 200),
    )
    for number, (shape, type_, transposed) in enumerate(product(batches, ("bf16", "f32"), (False, True))):
        cases.append(_batched(*shape, type_, number % 5 == 0, transposed))
    return cases


SUITES: dict[str, list[Case]] = {"matmul": _matmul(), "linears": _linears()}
