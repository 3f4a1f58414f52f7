"""The suites: named lists of cases.  A case makes its model and inputs when it is asked, on random normal data."""

from collections.abc import Callable

import torch

from benchmarks import attention, convolutions, elementwise, matmuls, models, moves, networks, random_programs, reductions, rows, scans, shapes, small, views
from benchmarks.case import Case
from benchmarks.matmuls import MatmulRelu


def _matmul(m: int, k: int, n: int, dtype: torch.dtype) -> Callable:
    def make(device: torch.device) -> tuple:
        return MatmulRelu(k, n, dtype, device), (torch.randn(m, k, dtype=dtype, device=device),), {}

    return make


def _name(dtype: torch.dtype) -> str:
    return {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]


# M, K, N
MATMULS = ((64, 128, 256), (128, 256, 512), (256, 512, 256), (512, 1024, 512), (1024,) * 3, (2048,) * 3, (4096,) * 3)
DTYPES = (torch.float32, torch.bfloat16)


def _inputs(function: Callable, *shapes: tuple[int, ...], dtype: torch.dtype) -> Callable:
    return lambda device: (function, tuple(torch.randn(s, dtype=dtype, device=device) for s in shapes), {})


def _linear_gelu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b))


def _swiglu(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    gate, up = torch.nn.functional.linear(x, w).chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def _projections(x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(torch.nn.functional.linear(x, w) for w in (q, k, v))


def _weight_gradient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.t() @ y


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(2, 3) / 8, -1) @ v


def _bert_tokens(length: int, dtype: torch.dtype) -> Callable:
    def make(device: torch.device) -> tuple:
        model, args, _ = models.bert("base", dtype, device)
        return model, args, models.tokens(model, length, device)

    return make


def _dynamic() -> list[Case]:
    """Kernels and a model whose sizes vary, at several sizes; compiled for one of them."""
    cases, n, s = [], torch.export.Dim("n", min=1, max=16384), torch.export.Dim("s", min=2, max=512)
    for d in DTYPES:
        linear = {m: _inputs(_linear_gelu, (m, 768), (3072, 768), (3072,), dtype=d) for m in (1, 16, 64, 128, 512, 2048, 8192)}
        down = {m: _inputs(_linear_gelu, (m, 3072), (768, 3072), (768,), dtype=d) for m in (1, 64, 512, 4096)}
        swiglu = {m: _inputs(_swiglu, (m, 2048), (11264, 2048), dtype=d) for m in (1, 64, 512, 4096)}
        projections = {m: _inputs(_projections, (m, 2048), (2048, 2048), (256, 2048), (256, 2048), dtype=d) for m in (1, 64, 512, 4096)}
        terms = {k: _inputs(_weight_gradient, (k, 768), (k, 3072), dtype=d) for k in (64, 512, 4096)}
        attention = {m: _inputs(_attention, *[(8, 12, m, 64)] * 3, dtype=d) for m in (64, 200, 512)}
        model = {m: _bert_tokens(m, d) for m in (16, 128, 512)}
        for name, makes, sizes, at in (
            ("gelu(linear) {}x768x3072", linear, ({0: n}, None, None), 512), ("gelu(linear) {}x3072x768", down, ({0: n}, None, None), 512),
            ("swiglu {}x2048x5632", swiglu, ({0: n}, None), 512), ("projections {}x2048x(2048+256+256)", projections, ({0: n}, None, None, None), 512),
            ("x.t() @ y 768x{}x3072", terms, ({0: n}, {0: n}), 512), ("attention 8x12x{}x64", attention, ({2: s},) * 3, 200),
            ("bert, {} tokens", model, {"input_ids": {1: s}}, 128),
        ):
            cases += [Case(f"{name.format(m)} {_name(d)}", make, (), sizes, makes[at]) for m, make in makes.items()]
    return cases


SUITES: dict[str, list[Case] | Callable[[int], list[Case]]] = {
    "dynamic": _dynamic(),
    "matmul-relu": [
        Case(f"relu(x @ w) {m}x{k}x{n} {_name(d)}", _matmul(m, k, n, d)) for d in DTYPES for m, k, n in MATMULS
    ],
    **matmuls.SUITES, **elementwise.SUITES, **rows.SUITES, **reductions.SUITES, **scans.SUITES, **moves.SUITES, **views.SUITES, **shapes.SUITES, **small.SUITES,
    **random_programs.SUITES, **attention.SUITES, **convolutions.SUITES, **models.SUITES, **networks.SUITES,
}


def cases_of(suite: str, seed: int) -> list[Case]:
    """The cases of a suite, of which some are drawn by ``seed``."""
    found = SUITES[suite]
    return found(seed) if callable(found) else found
